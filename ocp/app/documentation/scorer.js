// Guides and tutorials before problems of the gallery and tables of measurements; else as Sphinx scores.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score + (/^ocp\/docs\/(?!changelog|benchmarks)/.test(page) ? 30 : 0) - (/^ocp\/docs\/tutorials/.test(page) ? 15 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
