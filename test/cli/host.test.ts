import t from 'tap'
import { isCi, isScreen } from '../../lib/cli/host.js'

t.test('nobody watches the terminal of a CI job', t => {
  for (const CI of ['true', '1', 'woodpecker']) {
    t.ok(isCi({ CI }), CI)
    t.notOk(isScreen({ isTTY: true }, { CI, TERM: 'xterm' }), CI)
  }
  for (const CI of ['', '0', 'false', 'False', undefined]) {
    t.notOk(isCi({ CI }), `${CI}`)
    t.ok(isScreen({ isTTY: true }, { CI, TERM: 'xterm' }), `${CI}`)
  }
  t.notOk(isScreen({ isTTY: true }, { TERM: 'dumb' }))
  t.notOk(isScreen({}, { TERM: 'xterm' }))
  t.end()
})
