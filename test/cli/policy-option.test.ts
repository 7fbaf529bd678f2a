import t from 'tap'
import { policyField } from '../../lib/cli/policy-option.js'

t.test('words set keys of a policy: texts, JSON, and an empty text for the default', async t => {
  t.same(policyField([]), {})
  t.same(policyField(['drift=refuse', 'confirm={"seconds":90}', 'gate=', 'onPostFailure=null']), {
    policy: { drift: 'refuse', confirm: { seconds: 90 }, gate: null, onPostFailure: null }
  })
  t.same(policyField(['{"gate":{"after":[]},"drift":"off"}', 'drift=warn']), {
    policy: { gate: { after: [] }, drift: 'warn' }
  })
  for (const word of ['drift', '=refuse', '["drift"]', ''])
    t.throws(() => policyField([word]), { code: 'usage', message: /--policy/ }, word)
})
