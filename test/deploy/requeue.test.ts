import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Deployment } from '../../lib/model/deployment.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import { startAgentProcess } from '../support/agent-process.js'
import { freePort } from '../support/free-port.js'
import { startServeProcess, type ServeProcess, type Upload } from '../support/serve-process.js'
import { deploySays } from '../support/sentences/deploy.js'
import { until } from '../support/until.js'

/** A server that can be killed, and a project on one node. */
async function openStage(t: Parameters<typeof startServeProcess>[0] & { testdir(): string }) {
  const cwd = t.testdir()
  const port = String(await freePort())
  const start = () => startServeProcess(t, cwd, ['--port', port])
  let server: ServeProcess = await start()
  const { token } = await server.api<{ token: string }>('POST', '/api/enrollments', { name: 'n1' })
  const agent = await startAgentProcess(t, cwd, ['--hub', server.url], { env: { SVC_ENROLL_TOKEN: token } })
  await agent.says(/Connected to the hub/)
  const project = await server.createProject({ name: 'Shop', deployPath: join(cwd, 'www') })
  await server.changeProject(project.id, { allowClientScripts: true })
  await server.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'n1' }], remove: [] })

  async function push(files: Record<string, string>, fields: Record<string, string> = {}): Promise<Upload> {
    const upload = await server.upload(project, files, fields)
    upload.finished.catch(() => {})
    return upload
  }
  const record = (id: string) => server.api<Deployment>('GET', `/api/logs/${id}`)
  return {
    cwd,
    agent,
    push,
    record,
    page: () => readFileSync(join(cwd, 'www', 'index.html'), 'utf8'),
    archive: (id: string) => join(server.home, 'deployments', `${id}.zip`),
    rollouts: async () => (await server.api<{ rollouts: ListedRollout[] }>('GET', '/api/rollouts')).rollouts,
    /** A push that cannot go on, because the node stands still. */
    async stuckPush(text: string): Promise<Upload> {
      agent.child.kill('SIGSTOP')
      const upload = await push({ 'index.html': text })
      await until(async () => (await record(upload.deployId)).steps.some(({ name }) => name === 'rollout'))
      return upload
    },
    final: (id: string) =>
      until(async () => {
        const row = await record(id)
        return (row.status === 'success' || row.status === 'failed') && row
      }),
    change: (fields: object) => server.changeProject(project.id, fields),
    async restart(signal: NodeJS.Signals) {
      await server.stop(signal)
      server = await start()
    }
  }
}

t.test('a kill loses no deployment that waits for its rollout', async t => {
  const stage = await openStage(t)
  const { agent, record, final } = stage
  const first = await stage.stuckPush('one')
  await until(async () => (await stage.rollouts()).length === 1)
  const fields = { postDeploy: 'echo "$WORD" > word', env: '{"WORD":"kept"}', rollout: '{"maxFailures":7}' }
  const second = await stage.push({ 'index.html': 'two' }, fields)
  const without = await stage.push({ 'index.html': 'lost' })
  await stage.restart('SIGKILL')
  t.match(await record(first.deployId), { status: 'running' })
  t.match(await record(second.deployId), { status: 'queued' })

  await stage.restart('SIGKILL')
  rmSync(stage.archive(without.deployId))
  await stage.restart('SIGTERM')
  t.match(await record(second.deployId), { status: 'queued' }, 'a stop keeps it, too')
  agent.child.kill('SIGCONT')
  t.match(await final(first.deployId), { status: 'success', output: /the deployment continues/ })
  t.match(await final(second.deployId), { status: 'success', output: /the deployment is queued again/ })
  t.equal(stage.page(), 'two')
  t.equal(readFileSync(join(stage.cwd, 'www', 'word'), 'utf8'), 'kept\n', 'with its scripts and variables')
  t.match(await stage.rollouts(), [
    { deployId: second.deployId, policy: { maxFailures: 7 } },
    { deployId: first.deployId }
  ])
  t.match(await final(without.deployId), {
    status: 'failed',
    errorMessage: deploySays.archiveLostInQueue(without.deployId)
  })
})

t.test('a policy that became stricter before a restart applies to a rollout that waits', async t => {
  const stage = await openStage(t)
  await stage.stuckPush('one')
  const queued = await stage.push({ 'index.html': 'two' }, { rollout: '{"maxFailures":7}' })
  await stage.change({ policy: { rollout: { maxFailures: 1 } } })
  await stage.restart('SIGKILL')
  stage.agent.child.kill('SIGCONT')
  t.match(await stage.final(queued.deployId), {
    status: 'failed',
    errorMessage:
      /may not roll out with "maxFailures": 7\. The policy "rollout\.maxFailures" of the project is stricter/
  })
  t.equal(stage.page(), 'one')
})

t.test('a deployment whose rollout was not created ends truthfully', async t => {
  const stage = await openStage(t)
  // The server reads the archive for a while before the rollout begins.
  const { deployId } = await stage.push({ 'index.html': 'zeros', 'zeros.bin': '0'.repeat(150_000_000) })
  await until(async () => (await stage.record(deployId)).status === 'running')
  await stage.restart('SIGKILL')
  t.match(await stage.final(deployId), { status: 'failed', errorMessage: deploySays.restartedBeforeRollout })
  t.strictSame(await stage.rollouts(), [])
  const { deployId: next } = await stage.push({ 'index.html': 'next' })
  t.match(await stage.final(next), { status: 'success' })
  t.equal(stage.page(), 'next')
})
