import t from 'tap'
import { createPaint } from '../../../lib/cli/terminal/colors.js'

const cases: Array<[what: string, isTTY: boolean, env: Record<string, string>, colored: boolean]> = [
  ['a terminal', true, {}, true],
  ['no terminal', false, {}, false],
  ['a dumb terminal', true, { TERM: 'dumb' }, false],
  ['NO_COLOR', true, { NO_COLOR: '1' }, false],
  ['an empty NO_COLOR', true, { NO_COLOR: '' }, true],
  ['FORCE_COLOR', false, { FORCE_COLOR: '1' }, true],
  ['FORCE_COLOR=0', true, { FORCE_COLOR: '0' }, false],
  ['FORCE_COLOR over NO_COLOR', false, { FORCE_COLOR: '1', NO_COLOR: '1' }, true]
]

for (const [what, isTTY, env, colored] of cases) {
  t.test(`createPaint: ${what} ${colored ? 'has' : 'has no'} colours`, async t => {
    t.equal(createPaint({ isTTY }, env).red('x'), colored ? '\x1b[31mx\x1b[39m' : 'x')
  })
}
