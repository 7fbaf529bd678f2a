import t from 'tap'
import { isAnyRunning, isAnyScriptRecorded, readSettingText } from '../../../../lib/core/store/tables/start.js'
import { deleteScriptProcess, insertScriptProcess } from '../../../../lib/core/store/tables/deployments.js'
import { writeSetting } from '../../../../lib/core/store/tables/server.js'
import { openStage } from '../../../support/store.js'

t.test('an empty database says that nothing was left', async t => {
  const { store } = await openStage(t)
  t.equal(isAnyRunning(store), false)
  t.equal(isAnyScriptRecorded(store), false)
  t.equal(readSettingText(store, 'allowed_hosts'), undefined)
})

t.test('finds a recorded script until its record is removed', async t => {
  const { store } = await openStage(t)
  const script = { deployId: 'dep_a', step: 'postDeploy', pid: 7, startedAt: '1', bootId: 'b', home: '/h' } as const
  await store.write(tx => insertScriptProcess(tx, script))
  t.equal(isAnyScriptRecorded(store), true)
  await store.write(tx => deleteScriptProcess(tx, script))
  t.equal(isAnyScriptRecorded(store), false)
})

t.test('reads one setting as it was written', async t => {
  const { store } = await openStage(t)
  await store.write(tx => writeSetting(tx, 'allowed_hosts', 'deploy.example.org'))
  t.equal(readSettingText(store, 'allowed_hosts'), 'deploy.example.org')
  t.equal(readSettingText(store, 'trusted_proxies'), undefined)
})
