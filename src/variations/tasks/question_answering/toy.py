"""Generated stories about actors, places and objects, similar to bAbI tasks 1, 2, 6 and 15.

They are for tests and demonstrations without a download. Words and sentences differ from bAbI's, so that the two
cannot be confused, and results on them are never compared with published figures.
"""

from collections.abc import Callable
from random import Random

from variations.system.errors import UserError
from variations.tasks.question_answering.corpus import Split, hold_out
from variations.tasks.question_answering.reader import Question

ACTORS = ("anna", "boris", "clara", "dmitri")
PLACES = ("attic", "cellar", "stable", "orchard", "library", "chapel")
THINGS = ("lantern", "violin", "basket")
WENT = ("walked to", "ran to", "strolled to", "returned to")
TOOK = ("fetched", "lifted")
PUT = ("left", "lost")
KINDS = {"fox": "foxes", "hare": "hares", "owl": "owls", "vole": "voles"}
NAMES = ("ida", "jonas", "kira", "leo")

Sentence = tuple[str, ...]


def _words(text: str) -> Sentence:
    return tuple(text.split())


class _World:
    """Where everybody and everything is, and the sentences that say so."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.story: list[Sentence] = []
        self.place: dict[str, tuple[str, int]] = {}
        """The place of an actor, and the index of the sentence that says so."""
        self.holder: dict[str, tuple[str, int]] = {}
        """The holder of a thing, and the index of the sentence in which it was taken."""
        self.left: dict[str, tuple[str, tuple[int, int]]] = {}
        """The place of a thing, and the indices of the sentences that say that it was put down, and where."""

    def tell(self, text: str) -> int:
        self.story.append(_words(text))
        return len(self.story) - 1

    def move(self) -> None:
        actor, place = self.draw.choice(ACTORS), self.draw.choice(PLACES)
        self.place[actor] = (place, self.tell(f"{actor} {self.draw.choice(WENT)} the {place}"))

    def handle(self) -> None:
        """An actor whose place is known puts a thing down, or takes one that nobody holds and that is not elsewhere."""
        actor = self.draw.choice(sorted(self.place))
        place, moved = self.place[actor]
        held = [thing for thing in THINGS if thing in self.holder and self.holder[thing][0] == actor]
        if held and self.draw.random() < 0.5:
            thing = self.draw.choice(held)
            del self.holder[thing]
            self.left[thing] = (place, (self.tell(f"{actor} {self.draw.choice(PUT)} the {thing}"), moved))
            return
        free = [thing for thing in THINGS if thing not in self.holder and self.left.get(thing, (place,))[0] == place]
        if free:
            thing = self.draw.choice(free)
            self.left.pop(thing, None)
            self.holder[thing] = (actor, self.tell(f"{actor} {self.draw.choice(TOOK)} the {thing}"))

    def ask(self, text: str, answer: str, *supports: int) -> Question:
        return Question(tuple(self.story), _words(text), answer, supports)


def single_supporting_fact(draw: Random) -> list[Question]:
    """Task 1: where somebody is, from the last sentence about their movements."""
    world, questions = _World(draw), []
    for _ in range(5):
        world.move()
        world.move()
        actor = draw.choice(sorted(world.place))
        place, fact = world.place[actor]
        questions.append(world.ask(f"where is {actor}", place, fact))
    return questions


def two_supporting_facts(draw: Random) -> list[Question]:
    """Task 2: where a thing is, from who took or left it and where they were."""
    world, questions = _World(draw), list[Question]()
    while len(questions) < 5:
        for _ in range(2):
            world.move()
            world.handle()
        known = sorted({*world.holder, *world.left})
        if not known:
            continue
        thing = draw.choice(known)
        if thing in world.holder:
            actor, taken = world.holder[thing]
            place, moved = world.place[actor]
            questions.append(world.ask(f"where is the {thing}", place, taken, moved))
        else:
            place, facts = world.left[thing]
            questions.append(world.ask(f"where is the {thing}", place, *facts))
    return questions


def yes_no_questions(draw: Random) -> list[Question]:
    """Task 6: whether somebody is at a place; in half of the questions they are."""
    world, questions = _World(draw), []
    for _ in range(5):
        world.move()
        world.move()
        actor = draw.choice(sorted(world.place))
        place, fact = world.place[actor]
        is_there = draw.random() < 0.5
        asked = place if is_there else draw.choice([other for other in PLACES if other != place])
        questions.append(world.ask(f"is {actor} in the {asked}", "yes" if is_there else "no", fact))
    return questions


def basic_deduction(draw: Random) -> list[Question]:
    """Task 15: what somebody fears, from what they are and what such animals fear."""
    world = _World(draw)
    kinds = list(KINDS)
    feared = dict(zip(kinds, [*kinds[1:], kinds[0]], strict=True))
    if draw.random() < 0.5:
        feared = {prey: hunter for hunter, prey in feared.items()}
    of = {name: draw.choice(kinds) for name in NAMES}
    told: dict[str, int] = {}
    facts = [(kind, f"{KINDS[kind]} fear {KINDS[feared[kind]]}") for kind in kinds]
    facts += [(name, f"{name} is a kind of {of[name]}") for name in NAMES]
    draw.shuffle(facts)
    for about, text in facts:
        told[about] = world.tell(text)
    return [world.ask(f"what does {name} fear", feared[of[name]], told[name], told[of[name]]) for name in NAMES]


STORIES: dict[int, Callable[[Random], list[Question]]] = {
    1: single_supporting_fact,
    2: two_supporting_facts,
    6: yes_no_questions,
    15: basic_deduction,
}
"""The tasks that can be generated, by their numbers in bAbI."""


def generate(task: int, train: int, test: int, valid: float = 0.1, seed: int = 1) -> Split:
    """The questions of a task; the same for the same arguments. No story occurs in both training and test.

    Args:
        task: 1, 2, 6 or 15.
        train: training questions, of which the share `valid` is held out for validation.
        test: test questions.
        valid: the share held out, from 0 to below 1.
        seed: of the stories and of the held-out part.

    Raises:
        UserError: stories of this task cannot be generated.
    """
    if task not in STORIES:
        known = ", ".join(map(str, STORIES))
        raise UserError(f"The generated stories have no task {task}. Valid choices: {known}.")
    draw = Random(f"{seed} {task}")  # noqa: S311 - no secret
    seen: set[tuple[Sentence, ...]] = set()

    def told(wanted: int) -> list[Question]:
        questions: list[Question] = []
        while len(questions) < wanted:
            story = STORIES[task](draw)
            if story[-1].story not in seen:
                seen.add(story[-1].story)
                questions += story
        return questions[:wanted]

    kept, held_out = hold_out(told(train), valid, seed)
    return Split(task, kept, held_out, told(test))
