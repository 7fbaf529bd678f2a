import t from 'tap'
import type { ScriptProcess } from '../../../lib/model/deployment.js'
import {
  deleteScriptProcess,
  insertScriptProcess,
  listScriptProcesses
} from '../../../lib/store/tables/script-processes.js'
import { openStage } from '../../support/store.js'

t.test('keeps one row for each running script', async t => {
  const { store } = await openStage(t)
  const script: ScriptProcess = {
    deployId: 'dep_a',
    step: 'preDeploy',
    pid: 7,
    startedAt: '18446744073709551615',
    bootId: 'b',
    home: '1:2'
  }
  const other: ScriptProcess = { ...script, step: 'postDeploy' }
  await store.write(tx => [other, script].forEach(one => insertScriptProcess(tx, one)))
  t.same(listScriptProcesses(store), [other, script], 'a start time is text, because it has 64 bits')
  await store.write(tx => insertScriptProcess(tx, { ...script, pid: 8 }))
  await store.write(tx => deleteScriptProcess(tx, other))
  t.same(listScriptProcesses(store), [{ ...script, pid: 8 }])
})
