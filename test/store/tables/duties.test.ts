import t from 'tap'
import type { Duty } from '../../../lib/model/duty.js'
import {
  deleteHubDeployments,
  findDuty,
  findHubDeployment,
  hasHubDeployment,
  insertHubDeployment,
  listDuties,
  putDuty
} from '../../../lib/store/tables/duties.js'
import { aStore } from '../stage.js'

const duty: Duty = {
  projectId: 'proj_a',
  nodeId: 'node_a',
  isRemoved: false,
  state: {
    epoch: 'e',
    rolloutId: 'ro_1',
    number: 1,
    attempt: 2,
    action: 'swap',
    hasPrepared: true,
    outcome: 'begun',
    doneAttempt: 2,
    error: null
  },
  before: null,
  release: { deployId: 'dep_1', treeSha256: 'aa', archiveSha256: 'bb', archiveBytes: 10 },
  swapId: 'dep_local',
  undoId: null,
  failedStep: null,
  output: null,
  tookMs: null
}

t.test('a duty is replaced and found', async t => {
  const store = await aStore(t)
  const other = { ...duty, projectId: 'proj_b' }
  await store.write(tx => void (putDuty(tx, other), putDuty(tx, { ...duty, swapId: null }), putDuty(tx, duty)))
  t.strictSame(listDuties(store), [duty, other])
  t.strictSame(findDuty(store, 'proj_a'), duty)
})

t.test('a duty of an earlier version is read', async t => {
  const store = await aStore(t)
  const { epoch: _, ...state } = duty.state
  const { nodeId: __, isRemoved: ___, ...earlier } = duty
  await store.write(tx => putDuty(tx, { ...earlier, state } as Duty))
  t.match(findDuty(store, 'proj_a'), {
    nodeId: '',
    isRemoved: false,
    swapId: 'dep_local',
    state: { epoch: '', number: 1 }
  })
})

t.test('the deployments that the hub asked for are remembered until their records are removed', async t => {
  const store = await aStore(t)
  const made = (id: string, projectId: string) => ({ id, projectId, deployId: id === 'dep_2' ? null : 'dep_hub' })
  await store.write(tx => insertHubDeployment(tx, made('dep_1', 'proj_a')))
  t.strictSame(findHubDeployment(store, 'dep_1'), made('dep_1', 'proj_a'))
  await store.write(tx => insertHubDeployment(tx, made('dep_3', 'proj_b')))
  await store.write(tx => insertHubDeployment(tx, made('dep_2', 'proj_a')))
  t.equal(findHubDeployment(store, 'dep_1'), undefined, 'it has no record')
  t.strictSame(findHubDeployment(store, 'dep_2'), made('dep_2', 'proj_a'))
  t.ok(hasHubDeployment(store, 'proj_a'))
  await store.write(tx => deleteHubDeployments(tx, 'proj_a'))
  t.notOk(hasHubDeployment(store, 'proj_a'))
  t.equal(findHubDeployment(store, 'dep_2'), undefined)
  t.strictSame(findHubDeployment(store, 'dep_3'), made('dep_3', 'proj_b'))
})
