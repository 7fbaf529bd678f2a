import t from 'tap'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'

t.test('a release whose checks fail goes back, and one without a way back is stuck', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const gate = {
    after: [{ command: 'echo no way; exit 3' }],
    interval: 1,
    timeout: 1,
    deadline: 1,
    successes: 1,
    stableFor: 0,
    onFailure: 'revert' as const
  }
  const bad = await hub.release('proj_a', { a: '2' }, { deployPath, policy: { gate } })
  await hub.answer(hub.order(bad, 'prepare', { number: 2 }), 'prepared')
  const failed = await hub.answer(hub.order(bad, 'swap', { number: 2 }), 'failed')
  t.match(failed, { failedStep: 'check', error: /exit/, output: /no way/ })
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await hub.reported(({ placements }) => placements[0]?.liveDeployId === first.deployId)

  const kept = await hub.release('proj_a', { a: '3' }, { deployPath, project: { postDeployScript: 'exit 7' } })
  const stuck = await hub.answer(hub.order(kept, 'swap', { number: 3 }), 'stuck')
  t.match(stuck, { failedStep: 'postDeploy' })
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '3')
  await hub.answer(hub.order(kept, 'revert', { number: 3 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await hub.reported(({ placements }) => placements[0]?.liveDeployId === first.deployId)
})

t.test('a release that is stuck twice goes back to the files before the first attempt', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1', only: 'x' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const kept = await hub.release('proj_a', { a: '2' }, { deployPath, project: { postDeployScript: 'exit 7' } })
  await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  t.match(await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck'), { failedStep: 'postDeploy' })
  await hub.answer(hub.order(kept, 'revert', { number: 2 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await until(() => hub.reports.at(-1)?.placements[0]?.liveDeployId === first.deployId)
})

t.test('a second attempt that fails before it begins leaves a stuck node stuck, and it can still go back', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const project = { preDeployScript: `test ! -e ${sites}/no`, postDeployScript: 'exit 7' }
  const kept = await hub.release('proj_a', { a: '2' }, { deployPath, project })
  await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  writeFileSync(join(sites, 'no'), '')
  const again = await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  t.match(again, { failedStep: 'preDeploy' }, 'the files of the first attempt are in place')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '2')
  rmSync(join(sites, 'no'))
  await hub.answer(hub.order(kept, 'revert', { number: 2 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
})
