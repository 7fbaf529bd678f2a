import t from 'tap'
import { countChecks } from '../support/soak.js'

const cases: Array<[what: string, lines: string[], code: number | null, pass: number, fail: number]> = [
  ['tap’s own count', ['ok 1 - a', '# { total: 8, pass: 8 }'], 0, 8, 0],
  ['one failure', ['# { total: 8, pass: 7, fail: 1 }'], 1, 7, 1],
  ['nothing but failures', ['# { total: 4, fail: 4 }'], 1, 0, 4],
  ['lines without a count', ['ok 1', '    not ok 1 - of a subtest', 'not ok 2'], 1, 1, 1],
  ['all well, but for the exit code', ['ok 1'], 1, 1, 1],
  ['a program that prints no TAP', ['12 moves'], 0, 1, 0],
  ['one that failed', ['12 moves'], 1, 0, 1],
  ['one that was killed', [], null, 0, 1]
]
for (const [what, lines, code, pass, fail] of cases)
  t.test(`checks of a soak: ${what}`, async t => t.same(countChecks(lines, code), { pass, fail }))
