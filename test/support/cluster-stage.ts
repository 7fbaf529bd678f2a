import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { ClusterStatus } from '../../lib/model/health.js'
import type { Project } from '../../lib/model/project.js'
import type { RolloutPolicy } from '../../lib/model/rollout.js'
import { startAgentProcess, type AgentProcess } from './agent-process.js'
import { anEtcd, type EtcdCluster } from './etcd.js'
import { freePort } from './free-port.js'
import { startServeProcess, type ServeProcess, type ServeProgram } from './serve-process.js'
import { svc, type Ended, type SvcOptions } from './svc.js'
import { until } from './until.js'

/** Two hubs on etcd and nodes that know both, as real processes. */
export interface ClusterStage {
  cwd: string
  etcd: EtcdCluster
  agents: AgentProcess[]
  /** The addresses of the hubs. */
  urls: readonly [string, string]
  /** The hubs. The first one leads at the beginning. */
  hubs: [ServeProcess, ServeProcess]
  /** Starts a hub again that has ended, and waits until it follows. */
  startAgain(at: 0 | 1, program?: ServeProgram): Promise<void>
  /** Starts a hub again, and resolves when it listens. */
  start(at: 0 | 1, program?: ServeProgram): Promise<ServeProcess>
  /** Runs a command on the machine of a hub. For `serve`, the options of the hub are added. */
  run(at: 0 | 1, command: string[], options?: Partial<SvcOptions>): Promise<Ended>
  roleOf(at: 0 | 1): Promise<ClusterStatus['role'] | null>
  /** Creates a project on all nodes; its target on each is `<cwd>/<node>/www`. */
  placedProject(name: string, rollout: Partial<RolloutPolicy>): Promise<Project>
}

/** Starts two hubs, and one agent for each name. `known`: the hubs whose addresses the agents know. `auth`: whether etcd wants a password. */
export async function startCluster(
  t: Test,
  nodes: readonly string[],
  { known = [0, 1], auth = true }: { known?: ReadonlyArray<0 | 1>; auth?: boolean } = {}
): Promise<ClusterStage> {
  const etcd = await anEtcd(t, { auth })
  const cwd = t.testdir()
  writeFileSync(join(cwd, 'ca.pem'), etcd.options.ca as string)
  const { user, password, endpoints } = etcd.options
  const words = ['--store', `etcd:${endpoints.join(',')}`, '--etcd-ca', 'ca.pem']
  if (auth) words.push('--etcd-user', user as string)
  const ports = [await freePort(), await freePort()] as const
  const urls = ports.map(port => `http://127.0.0.1:${port}`) as unknown as [string, string]
  const envOf = (at: 0 | 1) => ({
    SVC_HOME: join(cwd, `h${at + 1}`),
    ...(auth && { SVC_ETCD_PASSWORD: password as string })
  })

  async function enter(at: 0 | 1, command: string[]): Promise<void> {
    const hub = ['--hub-name', `h${at + 1}`, '--hub-url', urls[at]]
    const { code, stderr } = await svc([...command, ...words, ...hub], { cwd, env: envOf(at) })
    if (code !== 0) throw new Error(`svc ${command.join(' ')} ended with ${code}: ${stderr}`)
  }

  async function start(at: 0 | 1, program: ServeProgram = {}): Promise<ServeProcess> {
    const started = await startServeProcess(t, cwd, [...words, '--port', String(ports[at])], envOf(at), program)
    return (hubs[at] = started)
  }

  const run = (at: 0 | 1, command: string[], options: Partial<SvcOptions> = {}): Promise<Ended> =>
    svc([...command, ...(command[0] === 'serve' ? [...words, '--port', String(ports[at])] : [])], {
      cwd,
      env: envOf(at),
      ...options
    })

  async function roleOf(at: 0 | 1): Promise<ClusterStatus['role'] | null> {
    const answer = await hubs[at].api<{ cluster: ClusterStatus }>('GET', '/api/cluster').catch(() => null)
    return answer?.cluster.role ?? null
  }

  const hubs = [] as unknown as [ServeProcess, ServeProcess]
  await enter(0, ['cluster', 'init'])
  const first = await start(0)
  await enter(1, ['cluster', 'join', '--key-file', join(cwd, 'h1', 'cluster.key')])
  await start(1)
  await until(async () => (await roleOf(1)) === 'follower')

  const agents: AgentProcess[] = []
  for (const name of nodes) {
    const { token } = await first.api<{ token: string }>('POST', '/api/enrollments', { name })
    mkdirSync(join(cwd, name))
    const env = { SVC_ENROLL_TOKEN: token, SVC_HOME: join(cwd, name, 'home') }
    const agent = await startAgentProcess(
      t,
      cwd,
      known.flatMap(at => ['--hub', urls[at]]),
      { env }
    )
    await agent.says(/Connected to the hub/)
    agents.push(agent)
  }

  return {
    cwd,
    etcd,
    agents,
    urls,
    hubs,
    roleOf,
    start,
    run,
    async startAgain(at, program) {
      await start(at, program)
      await until(async () => (await roleOf(at)) === 'follower')
    },
    async placedProject(name, rollout) {
      const project = await first.createProject({ name, deployPath: join(cwd, 'www') })
      await first.changeProject(project.id, { policy: { rollout } })
      const add = nodes.map(node => ({ node, deployPath: join(cwd, node, 'www') }))
      await first.api('PATCH', `/api/projects/${project.id}/placements`, { add, remove: [] })
      return project
    }
  }
}
