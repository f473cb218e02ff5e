"""What the dashboard's server answers, as types: the agreement between it and the page in `static/`.

All numbers are finite or null. Text is as the runs wrote it; the code that puts it into a page escapes it. A run's
identifier is its folder below the run store, `<sweep>/<row>/seed<k>[-attempt<n>]`; runs outside a
sweep are those of "single".

    GET /api/index                        Index
    GET /api/sweep/<name>                 Sweep        ?significance=1: with tests (slow the first time)
    GET /api/run/<id>                     Run
    GET /api/curves/<id>                  Curves       ?points=N: at most N points of each metric
    GET /api/compare?ids=<id>,<id>,…      Compare      the first is compared with; commas inside an id as %2C
    GET /api/branches/<id>                Branches
    GET /api/attention/<id>               Attention    404 where none is stored
    GET /api/drawings/<id>                Drawings     empty where the task draws no items
    GET /api/importance/<name>            Importance   how much each configuration key matters in a sweep
    GET /api/events                       text/event-stream; event "revision", data: the new Index.revision
    GET /api/export?sweep=<name>          the page as one HTML file
    any error                             Fault, with status 400, 404 or 500
"""
