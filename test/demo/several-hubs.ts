/*
 * The second half of the demo of a fleet: its server becomes the first hub of a cluster with a database in etcd, a second hub
 * joins, and the hub that leads is killed while a push runs.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterStatus } from '../../lib/model/health.js'
import { startEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { connected, expect, nodeNames, replaceInPage, showPages, type Fleet, type Hub } from './fleet.js'
import type { DemoStage } from './stage.js'

/** How a hub reaches etcd. */
interface Log {
  /** The option `--store`. */
  store: string
  /** Further options of `svc cluster init` and `join`. */
  words: string[]
}

/** Plays the second half. */
export async function showSeveralHubs(stage: DemoStage, fleet: Fleet): Promise<void> {
  const log = await startMembers(stage)
  const first = await becomeHub(stage, fleet, log)
  const second = await joinHub(stage, first, log)
  const hubs = [first, second] as const
  await tellAgents(stage, fleet, hubs)
  await killTheLeader(stage, fleet, hubs)
  await startAgain(stage, fleet, { first, second, log })
}

async function startMembers(stage: DemoStage): Promise<Log> {
  stage.say('One hub is not enough? Three members of etcd, with TLS, and a user and a password for svc')
  const etcd = await startEtcd({ size: 3, directory: join(stage.directory, 'etcd') })
  stage.defer(() => etcd.close())
  process.once('exit', () => {
    for (const member of etcd.members) member.signal('SIGKILL')
  })
  for (const { name, url } of etcd.members) stage.print(`${name}: ${url}`)
  const { endpoints, user, password } = etcd.options
  writeFileSync(join(stage.directory, 'etcd-password'), `${password}\n`, { mode: 0o600 })
  const words = ['--etcd-ca', 'etcd/ca.pem', '--etcd-user', user as string, '--etcd-password-file', 'etcd-password']
  return { store: `etcd:${endpoints.join(',')}`, words }
}

function serveHub(stage: DemoStage, { store }: Log, hub: { name: string; url: string }): Promise<Hub> {
  const words = ['serve', '--store', store, '--port', new URL(hub.url).port]
  stage.say(`${hub.name}$ svc ${words.join(' ')}`)
  return running(stage, words, hub)
}

async function running(stage: DemoStage, words: string[], { name, url }: { name: string; url: string }): Promise<Hub> {
  const service = stage.start(words, { env: { SVC_HOME: join(stage.directory, name) } })
  const [line] = await service.says(/^Hub ".*" of the cluster.*$/m)
  stage.print(line)
  return { service, url, admin: {} }
}

/** The server of the first half becomes a hub, with its projects, deployments and nodes. */
async function becomeHub(stage: DemoStage, { hub }: Fleet, log: Log): Promise<Hub> {
  stage.say('The server becomes the first hub. Its projects, deployments and nodes move into the cluster')
  stage.say('hub$ kill %1')
  await hub.service.stop()
  const env = { SVC_HOME: join(stage.directory, 'hub') }
  const words = ['cluster', 'init', '--store', log.store, ...log.words, '--hub-name', 'hub', '--hub-url', hub.url]
  await stage.svc(words, { env })
  const first = await serveHub(stage, log, { name: 'hub', url: hub.url })
  return { ...first, admin: hub.admin }
}

async function joinHub(stage: DemoStage, first: Hub, log: Log): Promise<Hub> {
  stage.say('A second hub joins, with a copy of the key of the cluster')
  const url = `http://127.0.0.1:${await freePort()}`
  const directory = join(stage.directory, 'hub-2')
  mkdirSync(directory)
  const key = ['--key-file', join('hub', 'cluster.key')]
  const words = ['cluster', 'join', ...key, '--store', log.store, ...log.words, '--hub-name', 'hub-2', '--hub-url', url]
  await stage.svc(words, { env: { SVC_HOME: directory } })
  const second = await serveHub(stage, log, { name: 'hub-2', url })
  return { ...second, admin: { ...first.admin, SVC_SERVER_URL: url } }
}

/** The agents get the addresses of both hubs. */
async function tellAgents(stage: DemoStage, { agents }: Fleet, hubs: readonly [Hub, Hub]): Promise<void> {
  stage.say('The agents are told where both hubs are')
  const words = ['agent', ...hubs.flatMap(({ url }) => ['--hub', url])]
  for (const name of nodeNames) {
    await agents.get(name)?.stop()
    stage.print(`${name}$ svc ${words.join(' ')}`)
    agents.set(name, stage.start(words, { cwd: name, env: { SVC_HOME: join(stage.directory, name, 'home') } }))
  }
  await connected(stage, hubs[1])
  await stage.svc(['fleet', 'nodes'], { env: hubs[1].admin })
}

function statusOf(stage: DemoStage, name: string): Promise<ClusterStatus | null> {
  const env = { SVC_HOME: join(stage.directory, name) }
  return stage.svc(['cluster', 'status', '--json'], { env, isQuiet: true }).then(
    text => JSON.parse(text) as ClusterStatus,
    () => null
  )
}

/** The hub that leads is killed in the middle of a push through the other one. */
async function killTheLeader(stage: DemoStage, { pusher }: Fleet, [first, second]: readonly [Hub, Hub]): Promise<void> {
  await stage.svc(['cluster', 'status'], { env: { SVC_HOME: join(stage.directory, 'hub-2') } })
  expect((await statusOf(stage, 'hub-2'))?.leader?.name, 'hub', 'the leader')
  stage.say('A push through hub-2, one node after the other. After the second wave, "hub", which leads, is killed')
  replaceInPage(stage, 'Tea', 'Cake')
  const words = ['push', '-m', 'Cake is better', '--server', second.url, '--then', '1', '--pause', '1s']
  const push = stage.start(words, { ...pusher, isShown: true })
  await push.says(/^wave 2\/5.*\n/m)
  stage.say('kill -9 hub')
  await first.service.stop('SIGKILL')
  expect(await push.ended, 0, 'the exit code of the push')
  showPages(stage, 'Harbour Books, Maps & Cake')
  const onSecond = { ...pusher, env: { ...pusher.env, SVC_SERVER_URL: second.url } }
  await stage.svc(['rollout', 'status'], onSecond)
  await stage.svc(['cluster', 'status'], { env: { SVC_HOME: join(stage.directory, 'hub-2') } })
  expect((await statusOf(stage, 'hub-2'))?.leader?.name, 'hub-2', 'the leader after the kill')
}

/** The killed hub starts again and catches up. */
async function startAgain(
  stage: DemoStage,
  { pusher }: Fleet,
  { first, second, log }: { first: Hub; second: Hub; log: Log }
): Promise<void> {
  stage.say('The killed hub starts again. It follows, and catches up')
  await serveHub(stage, log, { name: 'hub', url: first.url })
  for (;;) {
    const [own, leading] = [await statusOf(stage, 'hub'), await statusOf(stage, 'hub-2')]
    if (own?.role === 'follower' && own.sequence === leading?.sequence) break
  }
  await stage.svc(['cluster', 'status'], { env: { SVC_HOME: join(stage.directory, 'hub') } })
  await stage.svc(['rollout', 'list'], pusher)
  const list = (url: string): Promise<string> =>
    stage.svc(['rollout', 'list', '--server', url, '--json'], { ...pusher, isQuiet: true })
  expect(await list(first.url), await list(second.url), 'the list of rollouts on both hubs')
}
