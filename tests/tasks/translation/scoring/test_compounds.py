from variations.tasks.translation.scoring.bleu import replace_unicode_punctuation, split_compounds


def test_hyphens_between_non_spaces_become_tokens():
    assert split_compounds("rich-text format") == "rich ##AT##-##AT## text format"
    assert split_compounds("a Café-Liebhaber - gut") == "a Café ##AT##-##AT## Liebhaber - gut"


def test_matches_do_not_overlap():
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"
    assert split_compounds("ab-cd-ef") == "ab ##AT##-##AT## cd ##AT##-##AT## ef"


def test_hyphens_at_word_ends_stay():
    assert split_compounds("Ein- und Ausgang -5") == "Ein- und Ausgang -5"


def test_unicode_punctuation_is_replaced_and_letters_stay():
    assert replace_unicode_punctuation("“Größe”，３ … don’t") == '"Größe",3 ... don\'t'
    assert replace_unicode_punctuation("plain, ASCII - text.") == "plain, ASCII - text."
