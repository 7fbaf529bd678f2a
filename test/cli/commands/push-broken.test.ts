import type { ChildProcess } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Project } from '../../../lib/model/project.js'
import { startBrokenRelay, type BrokenRelayOptions } from '../../support/broken-relay.js'
import { startServeProcess, type ServeProcess } from '../../support/serve-process.js'
import { svc, type SvcOptions } from '../../support/svc.js'

const cwd = t.testdir({})
const started = startServeProcess(t, cwd)
let number = 0

interface Stage {
  project: Project
  deployPath: string
  options: SvcOptions
}

/** A project with a file that does not compress. */
async function stage(server: ServeProcess, top: string, { bytes = 88_000, config = {} } = {}): Promise<Stage> {
  const name = `site${++number}`
  const deployPath = join(top, `www${number}`)
  const project = await server.createProject({ name, deployPath })
  const site = join(cwd, name)
  mkdirSync(site)
  writeFileSync(join(site, 'noise.bin'), randomFillSync(Buffer.alloc(bytes)))
  writeFileSync(
    join(site, 'svc.config.json'),
    JSON.stringify({ projectId: project.id, serverUrl: server.url, files: ['noise.bin'], ...config })
  )
  return {
    project,
    deployPath,
    options: { cwd: site, env: { SVC_DEPLOY_TOKEN: project.token } }
  }
}

/** Pushes through a relay that breaks. */
async function pushBroken(t: Test, relayed: BrokenRelayOptions, given: { bytes?: number } = {}) {
  const server = await started
  const { project, options } = await stage(server, cwd, given)
  const relay = await startBrokenRelay(t, server.url, relayed)
  const ended = await svc(['push', '--server', relay.url], options)
  return { ...ended, project, server }
}

const unknown =
  /^The server did not confirm the upload, so a deployment may have begun\. Run "svc status --server http:\S+" to check/m

for (const [afterBytes, bytes] of [
  [100, 88_000],
  [2_000, 88_000],
  [88_000, 88_000],
  [300_000, 9_000_000]
] as const) {
  t.test(`push tries again if the connection breaks after ${afterBytes} of ${bytes} bytes`, async t => {
    const { code, stdout, stderr, project, server } = await pushBroken(t, { afterBytes }, { bytes })
    t.equal(code, 0, stderr)
    t.match(stderr, /\. Trying again in/)
    t.match(stdout, /✔ success/)
    t.equal((await server.deployments(project.id)).length, 1, 'it is deployed once')
  })
}

t.test('push gives up after some tries, and says what is known', async t => {
  // The list of deployments proves that the first attempt did not arrive. The pieces of the next ones do not, either.
  const [lost, cut] = await Promise.all([
    pushBroken(t, { swallowsUntil: '--\r\n', isForever: true }),
    pushBroken(t, { afterBytes: 100, isForever: true }, { bytes: 9_000_000 })
  ])
  for (const { code, stdout, stderr, project, server } of [lost, cut]) {
    t.equal(code, 1)
    t.equal(stdout, '')
    t.notMatch(stderr, unknown)
    t.match(stderr, /\. Trying again in/)
    t.match(stderr, /^error: Cannot reach the server: /m)
    t.same(await server.deployments(project.id), [])
  }
})

t.test('push gets through a connection that breaks each time', async t => {
  const { code, stderr, project, server } = await pushBroken(
    t,
    { afterBytes: 300_000, isForever: true },
    { bytes: 2_000_000 }
  )
  t.equal(code, 0, stderr)
  t.equal((await server.deployments(project.id)).length, 1)
})

t.test('push sends again what never arrived', async t => {
  const { code, stderr, project, server } = await pushBroken(t, { swallowsUntil: '--\r\n' })
  t.equal(code, 0, stderr)
  t.equal((await server.deployments(project.id)).length, 1)
})

t.test('push follows the deployment if only the response never arrives', async t => {
  const { code, stdout, stderr, project, server } = await pushBroken(t, { hides: 'x-svc-deploy-id' })
  t.equal(code, 0, stderr)
  t.match(stdout, /extracted 1 file/)
  t.equal((await server.deployments(project.id)).length, 1, 'it is not deployed twice')
})

t.test('push says that the result is unknown after Ctrl-C at the end of the upload', async t => {
  const server = await started
  const { options } = await stage(server, cwd)
  let pushing: ChildProcess | undefined
  const relay = await startBrokenRelay(t, server.url, {
    swallowsUntil: '--\r\n',
    onSwallowed: () => void pushing?.kill('SIGINT')
  })
  const { code, stderr } = await svc(['push', '--server', relay.url], {
    ...options,
    onOutput: (_, child) => void (pushing = child)
  })
  t.equal(code, 130)
  t.match(stderr, /^Interrupted: the server did not confirm the upload/m)
})

t.test('push follows by the id if the server is killed after the response head', async t => {
  const top = t.testdir()
  const first = await startServeProcess(t, top)
  const { options, deployPath } = await stage(first, top, {
    config: { preDeploy: 'echo begun; until [ -e go ]; do sleep 0.05; done' }
  })
  const relay = await startBrokenRelay(t, first.url)
  let restarted: Promise<void> | undefined
  const { code, stdout, stderr } = await svc(['push', '--server', relay.url], {
    ...options,
    onOutput(text) {
      if (!/^begun$/m.test(text)) return
      restarted ??= first
        .stop('SIGKILL')
        .then(() => startServeProcess(t, top))
        .then(second => void (relay.to = second.url))
    }
  })
  writeFileSync(join(deployPath, 'go'), '')
  t.equal(code, 1)
  t.match(
    stderr,
    /the connection was lost, reconnecting\. The deployment continues; to follow it later: svc logs -f dep_\w+ --server http:\S+/
  )
  t.match(stdout, /The server was restarted/)
  t.match(stdout, /✘ failed after /)
})

t.test('rollback says that the result is unknown if the response never arrives', async t => {
  const server = await started
  const { project, options } = await stage(server, cwd)
  for (const _ of ['one', 'two']) t.equal((await svc(['push'], options)).code, 0)
  const relay = await startBrokenRelay(t, server.url, { hides: 'x-svc-deploy-id' })
  const env = { SVC_TOKEN: server.adminToken, SVC_SERVER_URL: relay.url }
  const { code, stderr } = await svc(['rollback', project.id, '--yes', '--server', relay.url], { ...options, env })
  t.equal(code, 1)
  t.match(
    stderr,
    /The server did not answer, so the rollback may have begun\. Run "svc status proj_\w+ --server http:\S+" to check/
  )
  t.equal((await server.deployments(project.id)).length, 3)
})

t.test('the server ends before its directory is removed', async () => {
  // It goes on recording the files of deployments in the background.
  await (await started).stop('SIGKILL')
})
