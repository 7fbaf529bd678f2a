import t, { type Test } from 'tap'
import { join } from 'node:path'
import { systemClock } from '../../../lib/base/clock.js'
import { StopRequest } from '../../../lib/deploy/failure.js'
import { createMasker } from '../../../lib/deploy/scripts/masking.js'
import { openOutput } from '../../../lib/deploy/output/output.js'
import { runScript, startScript, type ScriptStage } from '../../../lib/deploy/scripts/script-run.js'
import type { ChosenScript } from '../../../lib/deploy/scripts/scripts.js'
import { readTail } from '../../../lib/deploy/output/stored-output.js'
import type { DeploymentStep } from '../../../lib/model/deployment.js'
import { until } from '../../support/until.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'

const chosen = (script: string, async = false): ChosenScript => ({
  step: 'postDeploy',
  source: 'client',
  script,
  async,
  line: 'the line'
})
const step = (): DeploymentStep => ({ name: 'postDeploy', status: 'running', startedAt: '', endedAt: null })

async function scriptStage(t: Test, patch: Partial<ScriptStage> = {}) {
  const target = t.testdir({})
  const path = join(target, 'dep.log')
  const output = await openOutput({ path, clock: systemClock })
  const ran: string[] = []
  const env = { PATH: process.env['PATH'], NAME: 'value' }
  const onRan = (script: ChosenScript): void => void ran.push(script.script)
  const processes = { markerOf: () => ({ name: 'SVC_SCRIPT', value: 'a' }), began() {}, ended() {} }
  const stage: ScriptStage = {
    processes,
    target,
    directory: null,
    shell: null,
    isFirst: false,
    umask: null,
    masker: createMasker([]),
    timeoutFrom: 'setting script_timeout',
    rights: null,
    env,
    timeoutMs: 5000,
    output,
    signal: new AbortController().signal,
    onRan,
    ...patch
  }
  const text = async (): Promise<string> => {
    await output.flush()
    return (await readTail(path, { maxBytes: 10_000 })).text
  }
  return { stage, text, ran }
}

t.test('runs a script in the target and records its lines and its end', async t => {
  const { stage, text, ran } = await scriptStage(t)
  const recorded = step()
  t.equal(
    await runScript(stage, chosen('echo "$NAME"; echo err >&2; pwd'), recorded),
    deploySays.ended('post-deploy', 0)
  )
  t.equal(recorded.exitCode, 0)
  t.equal(await text(), `→ the line\nvalue\nerr\n${stage.target}\n`)
  t.strictSame(ran, ['echo "$NAME"; echo err >&2; pwd'])
  t.equal(await runScript(stage, null, step()), null)
})

t.test('describes each kind of failure', async t => {
  const cases = [
    { script: 'exit 9', message: deploySays.failedWith('post-deploy', 9) },
    { script: 'kill -TERM $$', message: deploySays.endedBySignal('post-deploy', 'SIGTERM') },
    {
      script: 'exec sleep 9',
      timeoutMs: 50,
      message: deploySays.ranTooLong('post-deploy', 0.05)
    },
    {
      script: 'true',
      target: '/nowhere',
      message: matching(/^/, deploySays.didNotRun('The post-deploy script'), /.*/, deploySays.noDirectory('/nowhere'))
    }
  ]
  for (const { script, message, ...patch } of cases) {
    const { stage } = await scriptStage(t, patch)
    await t.rejects(runScript(stage, chosen(script), step()), { name: 'StepFailure', message })
  }
})

t.test('a request to stop ends the script and is thrown', async t => {
  const stopping = new AbortController()
  const { stage, ran } = await scriptStage(t, { signal: stopping.signal })
  const request = new StopRequest('cancel', 'Cancelled')
  const running = runScript(stage, chosen('exec sleep 9'), step())
  await until(() => ran.length > 0)
  stopping.abort(request)
  await t.rejects(running, request)
})

t.test('a background script returns once it runs and ends later', async t => {
  const { stage, ran } = await scriptStage(t)
  for (const [script, complaint] of [
    ['sleep 0.1', null],
    ['sleep 0.1; exit 2', deploySays.failedInBackground(2)]
  ] as const) {
    const recorded = step()
    const { sentence, tail } = await startScript(stage, chosen(script, true), recorded)
    t.equal(sentence, deploySays.startedInBackground)
    t.equal(recorded.exitCode, null)
    t.equal(await tail, complaint)
    t.equal(recorded.exitCode, complaint === null ? 0 : 2)
  }
  t.equal(ran.length, 2)
})

t.test('a background script that cannot be started fails at once', async t => {
  const { stage, ran } = await scriptStage(t, { target: '/nowhere' })
  await t.rejects(startScript(stage, chosen('true', true), step()), {
    name: 'StepFailure',
    message: deploySays.didNotRun('The post-deploy script in the background')
  })
  t.strictSame(ran, [])
})
