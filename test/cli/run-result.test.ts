import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { failedResult, nothingKnown, pageOf } from '../../lib/cli/run-result.js'
import { Interrupted } from '../../lib/cli/terminal/prompt.js'

t.test('a failure contains what is known and an error code', async t => {
  const known = { ...nothingKnown(), projectId: 'proj_a', message: 'm' }
  t.strictSame(failedResult(new Refusal('forbidden', 'other_project', 'No'), known), {
    deployId: null,
    status: 'failed',
    duration: null,
    url: null,
    error: { code: 'other_project', message: 'No' },
    projectId: 'proj_a',
    message: 'm',
    provenance: null,
    deployment: null,
    rollout: null
  })
  const cases: Array<[unknown, code: string, message: string]> = [
    [Object.assign(new Error('gone'), { code: 'ENOENT' }), 'ENOENT', 'gone'],
    [new Interrupted(), 'interrupted', 'Interrupted'],
    [new Error('a bug'), 'internal', 'a bug'],
    ['x', 'internal', 'x'],
    [null, 'internal', 'null']
  ]
  for (const [error, code, message] of cases) t.strictSame(failedResult(error, known).error, { code, message })
})

t.test('returns the URL of the page of a deployment', async t => {
  const api = { address: 'https://svc.test/prefix' }
  t.equal(pageOf(api, 'dep_a', 'https://public.test/deployments/dep_a'), 'https://public.test/deployments/dep_a')
  t.equal(pageOf(api, 'dep_a', null), 'https://svc.test/prefix/deployments/dep_a')
  t.equal(pageOf(api, null, null), null)
})
