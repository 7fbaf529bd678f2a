import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { readReceipt } from '../../lib/core/proof/receipt.js'
import { readReceipts, verifyReceipts, readTrustedKey } from '../../lib/core/proof/receipt-chain.js'
import { parsePublicKey } from '../../lib/base/digests.js'
import { oweReceipt } from '../../lib/core/store/tables/receipts.js'
import { updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertNode } from '../../lib/core/store/tables/fleet.js'
import { insertRollout, putRolloutNodes } from '../../lib/core/store/tables/rollouts.js'
import { Refusal } from '../../lib/base/errors.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { aNode, aRollout } from '../support/fleet-stage.js'
import { createServerKey } from '../../lib/core/audit/signed-note.js'

/** A stage whose deployments get receipts. */
async function receiptStage(t: Test) {
  const receipts = { key: createServerKey(t.testdir()), version: '1.2.0' }
  return deployStage(t, undefined, {}, { receipts })
}

t.test('each deployment gets a receipt that follows the one before', async t => {
  const stage = await receiptStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 0' })
  const first = await stage.deploy(project, { 'a.txt': 'one', 'b/c.txt': 'two' })
  const second = await stage.deploy(project, { 'a.txt': 'three' })
  const texts = [await stage.deployer.receipt(first.id), await stage.deployer.receipt(second.id)]
  const [one, two] = texts.map(readReceipt)
  t.match(one?.receipt, {
    chain: { number: 1, previous: null },
    project: { id: project.id, name: 'Shop' },
    target: project.deployPath,
    deployment: { id: first.id, status: 'success', failedStep: null, placed: 1, late: false },
    actor: { name: admin.name, tokenId: null },
    origin: { trigger: 'cli', exact: false },
    reverted: null,
    files: { placed: 2, added: { count: 2 }, changed: { count: 0 }, removed: { count: 0 } },
    scripts: { count: 1, items: [{ step: 'preDeploy', source: 'platform', exitCode: 0, background: false }] },
    nodes: null
  })
  t.match(two?.receipt, {
    chain: { number: 2, previous: one?.sha256 },
    files: { placed: 1, changed: { count: 1 } }
  })
  const sum = (text: string): string => createHash('sha256').update(text).digest('hex')
  t.strictSame(one?.subjects, [
    {
      name: 'Shop',
      digest: { sha256: first.treeSha256, dirHash: sum(`${sum('one')}  a.txt\n${sum('two')}  b/c.txt\n`) }
    },
    { name: `${first.id}.zip`, digest: { sha256: first.archiveSha256 } }
  ])
  t.equal(two?.receipt.files?.changed.sha256, sum(`${sum('three')}  a.txt\n`))
  const { receipts } = readReceipts(texts.join(''), 'both')
  const key = readTrustedKey(one?.receipt.server.key ?? '')
  t.match(verifyReceipts(receipts, { keys: [key], successors: [], revoked: new Set() }), { faults: [], notes: [] })
  t.ok(parsePublicKey(one?.receipt.server.publicKey ?? ''))
  t.strictSame(
    stage.deployer.receipts({ limit: 10 }).map(({ deployId }) => deployId),
    [first.id, second.id]
  )
  t.strictSame(stage.deployer.receipts({ limit: 10, after: first.id, projects: ['proj_other'] }), [])
  const result = JSON.parse(await stage.deployer.receiptResult(second.id)) as { payload: string }
  t.match(JSON.parse(Buffer.from(result.payload, 'base64').toString()), {
    predicateType: 'https://in-toto.io/attestation/svr/v0.2',
    predicate: { verifier: { policies: [] }, properties: [] }
  })
  t.strictSame(stage.faults, [])
})

t.test('failed, cancelled and reverted deployments have receipts that say so', async t => {
  const stage = await receiptStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 3' })
  const failed = await stage.deploy(project, { a: '1' })
  const said = readReceipt(await stage.deployer.receipt(failed.id)).receipt
  t.match(said, {
    deployment: { status: 'failed', failedStep: 'preDeploy', placed: null },
    files: null,
    scripts: { items: [{ exitCode: 3 }] }
  })
  await stage.change(project, {
    preDeployScript: '',
    postDeployScript: 'exit 1',
    policy: { onPostFailure: 'revert' }
  })
  const reverted = await stage.deploy(project, { a: '2' })
  t.match(readReceipt(await stage.deployer.receipt(reverted.id)).receipt, {
    deployment: { status: 'failed', failedStep: 'postDeploy', placed: null },
    reverted: { reason: 'post' },
    chain: { number: 2 }
  })
})

t.test('a receipt that could not be made is made later, and says so after a restart', async t => {
  const stage = await receiptStage(t)
  const project = await stage.addProject()
  let isBroken = true
  const { signers } = (stage.receipts as NonNullable<typeof stage.receipts>).key
  Object.assign((stage.receipts as NonNullable<typeof stage.receipts>).key, {
    signers: async (origin: string | null) => {
      if (isBroken) throw new Refusal('unavailable', 'server_key', 'Cannot use the key')
      return signers(origin)
    }
  })
  const { id } = await stage.deploy(project, { a: '1' })
  await t.rejects(stage.deployer.receipt(id), { code: 'receipt_unmade', message: /Cannot use the key/ })
  t.match(stage.faults, [[/Cannot make the receipt/]], 'it is logged once')
  const after = await stage.restart()
  isBroken = false
  t.match(readReceipt(await after.deployer.receipt(id)).receipt, { deployment: { late: true }, chain: { number: 1 } })
  const next = await after.deploy(project, { a: '2' })
  t.match(readReceipt(await after.deployer.receipt(next.id)).receipt, {
    deployment: { late: false },
    chain: { number: 2 }
  })
})

t.test('the receipt of a rollout names the nodes and what became of each', async t => {
  const stage = await receiptStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { a: '1' })
  await stage.deployer.receipt(id)
  const node = {
    wave: 1,
    attempt: 1,
    swapAttempt: 1,
    hasBegun: true,
    error: null,
    updatedAt: '2030-01-01T00:00:00.000Z'
  }
  await stage.store.write(tx => {
    tx.run('DELETE FROM receipts')
    for (const letter of ['b', 'a']) insertNode(tx, aNode(letter))
    insertRollout(tx, aRollout({ projectId: project.id, deployId: id }))
    const nodes = [
      { ...node, nodeId: 'node_a', phase: 'good' as const },
      { ...node, nodeId: 'node_b', phase: 'unreachable' as const }
    ]
    putRolloutNodes(tx, 'ro_a', { nodes, position: 0 })
    oweReceipt(tx, { id, projectId: project.id })
  })
  const { nodes, target } = readReceipt(await stage.deployer.receipt(id)).receipt
  t.match(nodes, {
    count: 2,
    items: [
      { node: 'plant-a', phase: 'good' },
      { node: 'plant-b', phase: 'unreachable' }
    ]
  })
  t.equal(target, null, 'each node has its own')
})

t.test('a deployment without a receipt says why', async t => {
  const stage = await receiptStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { a: '1' })
  await stage.deployer.receipt(id)
  await stage.store.write(tx => tx.run('DELETE FROM receipts'))
  await t.rejects(stage.deployer.receipt(id), { code: 'no_receipt', message: /earlier version/ })
  await stage.store.write(tx => {
    updateDeployment(tx, id, { revertReason: 'check', revertedAt: null })
    oweReceipt(tx, { id, projectId: project.id })
  })
  await t.rejects(stage.deployer.receipt(id), { code: 'no_receipt', message: /still to be put back/ })
  await stage.store.write(tx => updateDeployment(tx, id, { status: 'running' }))
  await t.rejects(stage.deployer.receipt(id), { code: 'no_receipt', message: /not finished/ })
  await t.rejects(stage.deployer.receipt('dep_none'), { code: 'not_found' })
})
