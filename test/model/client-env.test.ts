import t from 'tap'
import { allowedEnvFault } from '../../lib/model/client-env.js'

t.test('accepts names, and prefixes that end with *', async t => {
  for (const entry of ['NODE_ENV', '_', 'x9', 'APP_*', 'a*', 'P*', 'A'.repeat(200)])
    t.equal(allowedEnvFault(entry), null, entry)
})

t.test('refuses anything else with the reason', async t => {
  for (const entry of ['', '9A', 'A B', 'A=B', 'A-B', '*A', 'A**', 'A*B', '**', 'É', 'A\n', 'A\0', 'A'.repeat(201)]) {
    t.type(allowedEnvFault(entry), 'string', JSON.stringify(entry))
  }
  t.match(allowedEnvFault('*'), 'every variable')
})

t.test('refuses a name that is never passed on', async t => {
  for (const entry of ['PATH', 'LD_PRELOAD', 'LD_*', 'SVC_X', 'SVC_*', 'NODE_OPTIONS', 'BASH_FUNC_*']) {
    t.match(allowedEnvFault(entry), 'never', entry)
  }
})
