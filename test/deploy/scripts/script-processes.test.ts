import t from 'tap'
import { spawnSync } from 'node:child_process'
import { createScriptProcesses } from '../../../lib/deploy/scripts/script-processes.js'
import type { ChosenScript } from '../../../lib/deploy/scripts/scripts.js'
import { listScriptProcesses } from '../../../lib/store/tables/deployments.js'
import { deployStage } from '../../support/deploy-stage.js'

t.test('records a background script even if it has already ended, but no other', async t => {
  const stage = await deployStage(t)
  const processes = createScriptProcesses({ ...stage, log: () => {} }, 'dep_a')
  const { pid } = spawnSync('true')
  const script = { source: 'platform', script: 'true', line: '' } as const
  processes.began({ ...script, step: 'preDeploy', async: false } as ChosenScript, pid)
  processes.began({ ...script, step: 'postDeploy', async: true } as ChosenScript, pid)
  await stage.store.write(() => {})
  t.match(listScriptProcesses(stage.store), [{ deployId: 'dep_a', step: 'postDeploy', pid }])
  t.equal(listScriptProcesses(stage.store).length, 1)
})
