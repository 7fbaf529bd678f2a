import t, { type Test } from 'tap'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StopRequest } from '../../lib/deploy/failure.js'
import { openOutput } from '../../lib/deploy/output/output.js'
import { createSteps } from '../../lib/deploy/steps.js'
import type { DeploymentStep } from '../../lib/model/deployment.js'
import { setClock } from '../support/clock.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

const at = '2030-01-01T00:00:00.000Z'
const stored: DeploymentStep = { name: 'store', status: 'success', startedAt: at, endedAt: at }

async function stepsStage(t: Test) {
  const path = join(t.testdir({}), 'dep.log')
  const clock = setClock()
  const output = await openOutput({ path, clock })
  const stopping = new AbortController()
  const saved: string[] = []
  const save = async (steps: DeploymentStep[]): Promise<void> => {
    saved.push(steps.map(step => `${step.name} ${step.status}`).join(', '))
  }
  const steps = createSteps({ clock, output, signal: stopping.signal, done: [stored], save })
  return { path, clock, steps, saved, stopping }
}

t.test('records a step when it begins, with its times and its sentence', async t => {
  const { path, clock, steps, saved } = await stepsStage(t)
  await steps.run('target', async () => {
    clock.advance(1250)
    return 'prepared the target'
  })
  await steps.run('preDeploy', async () => null)
  t.strictSame(steps.all(), [
    stored,
    { name: 'target', status: 'success', startedAt: at, endedAt: '2030-01-01T00:00:01.250Z' },
    { name: 'preDeploy', status: 'skipped', startedAt: '2030-01-01T00:00:01.250Z', endedAt: '2030-01-01T00:00:01.250Z' }
  ])
  t.strictSame(saved, ['store success, target running', 'store success, target success, preDeploy running'])
  t.equal(await readFile(path, 'utf8'), '2030-01-01T00:00:01.250Z → prepared the target (1.25s)\n')
})

t.test('a failed step throws the sentence for the record', async t => {
  const { steps, path } = await stepsStage(t)
  await t.rejects(
    steps.run('extract', async () => {
      throw new Error('odd')
    }),
    { name: 'StepFailure', message: deploySays.extractionFailed('odd') }
  )
  t.match(steps.all()[1], { status: 'failed', endedAt: at })
  await rm(path)
  await t.rejects(
    steps.run('postDeploy', async () => 'done'),
    { message: matching(/^/, deploySays.scriptFailed('post-deploy', 'ENOENT')) },
    'an output that cannot be written fails the step'
  )
})

t.test('throws the request to stop, and then runs only the clean-up', async t => {
  const { steps, stopping } = await stepsStage(t)
  const request = new StopRequest('cancel', 'Cancelled by admin')
  await t.rejects(
    steps.run('preDeploy', async () => {
      stopping.abort(request)
      throw new Error('killed')
    }),
    request
  )
  await t.rejects(
    steps.run('extract', async () => 'never'),
    request
  )
  await steps.run('cleanup', async () => 'gone')
  t.strictSame(
    steps.all().map(({ name, status }) => `${name} ${status}`),
    ['store success', 'preDeploy failed', 'cleanup success']
  )
})
