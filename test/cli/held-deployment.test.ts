import t from 'tap'
import type { Api } from '../../lib/cli/client/api.js'
import type { Context } from '../../lib/cli/command.js'
import { heldDeploymentId } from '../../lib/cli/held-deployment.js'
import type { EffectiveConfig } from '../../lib/config/precedence.js'
import type { Deployment } from '../../lib/model/deployment.js'

t.test('finds the deployment of the project that is held', async t => {
  let rows: Array<Partial<Deployment>> = [{ id: 'dep_a', heldFor: 'confirm' }]
  const api: Pick<Api, 'deployments'> = {
    async deployments(query) {
      t.match(query, { projectId: 'proj_a', status: 'running' })
      return rows as Deployment[]
    }
  }
  const config = { projectId: { value: 'proj_a' } } as EffectiveConfig
  const find = () => heldDeploymentId(api, { context: {} as Context, config })
  t.equal(await find(), 'dep_a')
  rows = [{ id: 'dep_a', heldFor: null }]
  await t.rejects(find(), { code: 'not_waiting', message: /No deployment of proj_a waits/ })
  rows = [{ id: 'dep_a' }]
  await t.rejects(find(), { code: 'not_waiting' }, 'an older server')
})
