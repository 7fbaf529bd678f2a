import t from 'tap'
import { policyField, projectFields, projectOptions, withMaskedToken } from '../../lib/cli/project-options.js'
import type { ShownProject } from '../../lib/model/project.js'

const project = (id: string, name: string) => ({ id, name })
t.test('only the options that were given become fields', async t => {
  t.same(projectFields({}), {})
  t.same(projectFields({ pre: '', 'post-async': 'true', 'client-scripts': 'default', 'max-disk-mb': 0, pm2: '' }), {
    preDeployScript: '',
    postDeployAsync: true,
    allowClientScripts: null,
    maxDiskMb: null,
    pm2AppName: null
  })
  t.same(projectFields({ 'max-disk-mb': 7, pm2: 'web' }), { maxDiskMb: 7, pm2AppName: 'web' })
})

t.test('each option sets one field', async t => {
  for (const flag of Object.keys(projectOptions)) {
    t.equal(Object.keys(projectFields({ [flag]: 'true' })).length, 1, flag)
  }
})

t.test('a token that the caller may see is masked; a hidden one stays null', async t => {
  const shown = project('proj_a', 'one') as unknown as ShownProject
  t.equal(withMaskedToken({ ...shown, token: 'the-token-of-a-project' }).token, '****ject')
  t.equal(withMaskedToken({ ...shown, token: null }).token, null)
})

t.test('words set keys of a policy: texts, JSON, and an empty text for the default', async t => {
  t.same(policyField([]), {})
  t.same(policyField(['drift=refuse', 'confirm={"seconds":90}', 'gate=', 'onPostFailure=null']), {
    policy: { drift: 'refuse', confirm: { seconds: 90 }, gate: null, onPostFailure: null }
  })
  t.same(policyField(['{"gate":{"after":[]},"drift":"off"}', 'drift=warn']), {
    policy: { gate: { after: [] }, drift: 'warn' }
  })
  for (const word of ['drift', '=refuse', '["drift"]', '', 'confirm={"seconds":9,"seconds":90}'])
    t.throws(() => policyField([word]), { code: 'usage', message: /--policy/ }, word)
})
