import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  deploymentBefore,
  placedBy,
  revert,
  revertResult,
  swapResult,
  untilFinished
} from '../../../lib/fleet/agent/swap.js'
import { insertHubDeployment } from '../../../lib/core/store/tables/fleet.js'
import { deployStage, never } from '../../support/deploy-stage.js'

t.test('the record of a deployment says what became of a release', async t => {
  const stage = await deployStage(t)
  const needs = { store: stage.store, deployer: stage.deployer, clock: stage.clock }
  const project = await stage.addProject()
  const placing = (swapId: string) => ({ projectId: project.id, swapId, releaseId: `hub_of_${swapId}` })
  const first = await stage.deploy(project, { a: '1' }, { deployId: 'dep_first' })
  t.equal(first.id, 'dep_first')
  t.match(await swapResult(needs, first, 'hub_1'), { answer: 'good', error: null, output: /dep_first/ })
  await stage.change(project, { postDeployScript: 'exit 1' })
  const stuck = await stage.deploy(project, { a: '2' })
  t.match(await swapResult(needs, stuck, 'hub_2'), { answer: 'stuck', failedStep: 'postDeploy' })
  await stage.change(project, { postDeployScript: '', preDeployScript: 'exit 1' })
  const failed = await stage.deploy(project, { a: '3' })
  t.match(await swapResult(needs, failed, 'hub_3'), { answer: 'failed', failedStep: 'preDeploy' })
  await t.rejects(swapResult(needs, { ...failed, status: 'running' }, 'hub_3'), { code: 'shutting_down' })

  t.equal(deploymentBefore(stage.store, project.id, stuck.id), first.id)
  t.equal(deploymentBefore(stage.store, project.id, first.id), null)
  t.equal(await untilFinished(needs, 'dep_none', never), null)
  t.equal((await untilFinished(needs, stuck.id, never))?.status, 'failed')
  t.match(await revertResult(needs, failed, placing(stuck.id)), { answer: 'stuck' })
  t.match(await revertResult(needs, failed, placing(first.id)), { answer: 'reverted' })
  t.match(await revert(needs, { ...placing(first.id), undoId: 'dep_undo' }), {
    answer: 'stuck',
    error: /was made on the node after it/
  })
  await stage.change(project, { preDeployScript: '' })
  t.match(await revert(needs, { ...placing(stuck.id), undoId: 'dep_undo' }), { answer: 'reverted' })
  t.match(stage.row('dep_undo'), { undoOf: stuck.id, status: 'success' })
})

t.test('the hub gets the last 4 KiB of an output, and the node has all of it', async t => {
  const stage = await deployStage(t)
  const needs = { store: stage.store, deployer: stage.deployer, clock: stage.clock }
  const project = await stage.addProject({ postDeployScript: 'seq 1 3000; exit 1' })
  const failed = await stage.deploy(project, { a: '1' })
  const { output, failedStep } = await swapResult(needs, failed, 'hub_1')
  t.ok(Buffer.byteLength(output as string) <= 4096)
  t.match({ output, failedStep }, { output: /\b2999\r?\n.*\b3000\b/s, failedStep: 'postDeploy' })
  t.match(await stage.output(failed.id), /\b1\r?\n.*\b3000\b/s)
})

t.test('several attempts put the same release in place, and are undone together', async t => {
  const stage = await deployStage(t)
  const { store } = stage
  const needs = { store, deployer: stage.deployer, clock: stage.clock }
  const project = await stage.addProject()
  const note = (id: string, deployId: string) =>
    store.write(tx => insertHubDeployment(tx, { id, projectId: project.id, deployId }))
  const first = await stage.deploy(project, { a: '1', gone: 'x' }, { deployId: 'dep_1' })
  await note('dep_1', 'hub_1')
  await stage.change(project, { postDeployScript: 'exit 1' })
  for (const id of ['dep_2', 'dep_3']) {
    await note(id, 'hub_2')
    await stage.deploy(project, { a: '2' }, { deployId: id })
  }
  await stage.change(project, { preDeployScript: 'exit 1' })
  await note('dep_4', 'hub_2')
  const failed = await stage.deploy(project, { a: '2' }, { deployId: 'dep_4' })
  t.match(await swapResult(needs, failed, 'hub_2'), { answer: 'stuck', failedStep: 'preDeploy' })
  const placing = { projectId: project.id, swapId: 'dep_4', releaseId: 'hub_2' }
  t.same(placedBy(store, placing), ['dep_3', 'dep_2'])
  t.same(placedBy(store, { ...placing, releaseId: 'hub_1' }), [])
  const onFailureScript = 'echo "[$SVC_FAILURE] $SVC_FAILURE_REASON: $(cat a)"; exit 1'
  await stage.change(project, { preDeployScript: '', postDeployScript: '', policy: { onFailureScript } })
  t.match(await revert(needs, { ...placing, undoId: 'dep_undo' }), {
    answer: 'reverted',
    error: null,
    output: /\n\[reverted\] The hub has taken the release back: 1\n/
  })
  t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), '1')
  t.same(placedBy(store, placing), [])
  t.match(stage.row('dep_undo'), { undoOf: 'dep_3', rollbackOf: first.id, status: 'success' })
})

/** Puts two releases in place, as swaps of the hub. */
async function twoReleases(t: Test, files: readonly [Record<string, string>, Record<string, string>]) {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { prune: 'managed' } })
  for (const [at, each] of files.entries()) {
    const id = `dep_${at + 1}`
    await stage.store.write(tx => insertHubDeployment(tx, { id, projectId: project.id, deployId: `hub_${at + 1}` }))
    await stage.deploy(project, each, { deployId: id })
  }
  const needs = { store: stage.store, deployer: stage.deployer, clock: stage.clock }
  const placing = { projectId: project.id, swapId: 'dep_2', releaseId: 'hub_2', undoId: 'dep_undo' }
  return { stage, needs, placing, place: (path: string) => join(project.deployPath, path) }
}

t.test('a revert that brings nothing back, because the target was emptied, is stuck', async t => {
  const { needs, placing, place } = await twoReleases(t, [
    { a: '1', 'd/b': '1' },
    { a: '2', 'd/b': '2' }
  ])
  for (const path of ['a', 'd']) rmSync(place(path), { recursive: true })
  t.match(await revert(needs, placing), { answer: 'stuck', error: /No file was changed: .* not there any more/ })
  t.notOk(existsSync(place('a')))
  t.same(placedBy(needs.store, placing), ['dep_2'], 'the release is still the one of the target')
})

t.test('a revert in which only some files stay away is reverted, and names them', async t => {
  const { needs, placing, place } = await twoReleases(t, [
    { a: '1', 'd/b': '1' },
    { a: '2', 'd/b': '2' }
  ])
  rmSync(place('d/b'))
  const answer = await revert(needs, placing)
  t.match(answer, { answer: 'reverted', error: null, output: /kept "d\/b" away, which was removed on the server/ })
  t.equal(readFileSync(place('a'), 'utf8'), '1')
  t.notOk(existsSync(place('d/b')))
})
