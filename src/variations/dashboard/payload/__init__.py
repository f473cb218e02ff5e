"""Types of the server's answers: the interface between it and the page in `static/`.

All numbers are finite or null. Text is unescaped; the page escapes it. A run's identifier is its folder below the run
store, `<sweep>/<row>/seed<k>[-attempt<n>]`; the sweep of runs outside a sweep is `single`.

    GET /api/index                        Index
    GET /api/sweep/<name>                 Sweep        ?significance=1: with tests (slow the first time)
    GET /api/run/<id>                     Run
    GET /api/curves?ids=…&metrics=…&x=…   SomeCurves   of runs <id>,<id>,… these metrics, against one of the axes
    GET /api/curves/<id>                  Curves       all of them; ?points=N: at most N points of each metric
    GET /api/compare?ids=<id>,<id>,…      Compare      with the first one; commas inside an id as %2C
    GET /api/branches/<id>                Branches
    GET /api/attention/<id>               Attention    404 if none is stored
    GET /api/drawings/<id>                Drawings     empty if the task draws no items
    GET /api/importance/<name>            Importance   how much each configuration key matters in a sweep
    GET /api/events                       text/event-stream; event "revision", data: the new Index.revision
    GET /api/export?sweep=<name>          the page as one HTML file
    any error                             Fault, with status 400, 404 or 500
"""
