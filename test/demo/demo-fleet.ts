/**
 * `make demo-fleet`: a hub and five agents as real processes on free ports of this machine; then (`several-hubs.ts`) the hub
 * becomes one of two on three members of etcd. Each stage is a function; the next one gets what the one before has opened.
 * Serves until Ctrl-C on a terminal; elsewhere it ends after the last stage.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withoutEtcd } from '../support/etcd.js'
import { connected, nodeNames, replaceInPage, showPages, type Fleet, type Hub } from './fleet.js'
import { showSeveralHubs } from './several-hubs.js'
import { openStage, top, type DemoStage, type Run, type Service } from './stage.js'

/** The node that is out of order, in the third wave. */
const badNode = 'plant-4'

const homeOfHub = (stage: DemoStage) => ({ SVC_HOME: join(stage.directory, 'hub') })

/** Starts the hub; again, it does not print its admin token. */
async function startHub(stage: DemoStage, port = '0', admin: Record<string, string> = {}): Promise<Hub> {
  stage.say(`$ svc serve --port ${port}`)
  const service = stage.start(['serve', '--port', port], { env: homeOfHub(stage) })
  const [, url = ''] = await service.says(/svc listens on (\S+?)\/?\n/)
  const [, token = admin['SVC_TOKEN'] as string] = await service.says(/Admin token: (\S+)|The admin token comes from/)
  await service.says(/Data directory: .*\n/)
  stage.print(`svc listens on ${url}`)
  return { service, url, admin: { SVC_SERVER_URL: url, SVC_TOKEN: token } }
}

/** Makes five directories of this machine nodes, each with an agent of its own. */
async function enrollNodes(stage: DemoStage, hub: Hub): Promise<Map<string, Service>> {
  stage.say('Five machines become nodes. On the hub, create a token for each; on the machine, start the agent with it')
  const agents = new Map<string, Service>()
  for (const [index, name] of nodeNames.entries()) {
    const words = ['fleet', 'enroll', '--name', name, '--label', `zone=${index < 3 ? 'east' : 'west'}`]
    const { token } = JSON.parse(await stage.svc([...words, '--json'], { env: hub.admin, isQuiet: true }))
    stage.say(`$ svc ${words.join(' ')}`)
    stage.say(`${name}$ svc agent --hub ${hub.url} --enroll -`)
    mkdirSync(join(stage.directory, name))
    const env = { SVC_HOME: join(stage.directory, name, 'home') }
    const agent = stage.start(['agent', '--hub', hub.url, '--enroll', '-'], { cwd: name, env, input: `${token}\n` })
    await agent.says(/Data directory: .*\n/)
    agents.set(name, agent)
  }
  await connected(stage, hub)
  await stage.svc(['fleet', 'nodes'], { env: hub.admin })
  return agents
}

/** Creates a project with a check, and places it on all nodes. */
async function placeProject(stage: DemoStage, hub: Hub): Promise<Run> {
  stage.say('A project. Each node checks itself after a deployment: here it must not be out of order')
  const env = hub.admin
  const create = ['projects', 'create', 'books', '--path', join(stage.directory, 'www')]
  await stage.svc(create, { env })
  const gate = { after: [{ command: 'test ! -e ../out-of-order' }], interval: 0.2, deadline: 2, successes: 1 }
  await stage.svc(['projects', 'set', 'books', '--policy', `gate=${JSON.stringify(gate)}`], { env })
  await stage.svc(['projects', 'set', 'books', '--policy', 'rollout={"canary":1,"then":"2"}'], { env })
  stage.say('It is placed on all nodes, on each in a directory of its own')
  for (const name of nodeNames) {
    const path = join(stage.directory, name, 'www')
    await stage.svc(['fleet', 'place', 'books', '--on', name, '--path', path, '--json'], { env, isQuiet: true })
    stage.print(`$ svc fleet place books --on ${name} --path ${path}`)
  }

  const { id } = JSON.parse(await stage.svc(['projects', 'show', 'books', '--json'], { env, isQuiet: true }))
  const token = (await stage.svc(['projects', 'token', 'books'], { env, isQuiet: true })).trim()
  cpSync(join(top, 'test/demo/site'), join(stage.directory, 'work/dist'), { recursive: true })
  const pusher = { cwd: 'work', env: { SVC_DEPLOY_TOKEN: token, SVC_HOME: join(stage.directory, 'client') } }
  await stage.svc(['init', '--project', id, '--server', hub.url, '--out', 'dist'], pusher)
  return pusher
}

/** A release reaches all nodes in three waves. */
async function rollOut(stage: DemoStage, { pusher }: Fleet): Promise<void> {
  stage.say('A push goes to one node first, then to two at a time')
  await stage.svc(['push', '-m', 'First version'], pusher)
  await stage.svc(['rollout', 'status'], pusher)
  showPages(stage, 'Harbour Books')
}

/** A rollout halts on a node whose check fails, and is reverted. */
async function haltAndRevert(stage: DemoStage, { pusher }: Fleet): Promise<void> {
  stage.say(`Now ${badNode} is out of order, and somebody pushes a new version`)
  const disorder = join(stage.directory, badNode, 'out-of-order')
  writeFileSync(disorder, '')
  replaceInPage(stage, 'Harbour Books', 'Harbour Books & Maps')
  await stage.svc(['push', '-m', 'We sell maps, too'], { ...pusher, code: 1 })
  const maps = 'Harbour Books & Maps'
  showPages(stage, { [badNode]: 'Harbour Books', others: maps })

  stage.say('Put back what every node had before')
  await stage.svc(['rollout', 'revert'], pusher)
  showPages(stage, 'Harbour Books')

  stage.say(`${badNode} is repaired: the same rollout continues`)
  rmSync(disorder)
  await stage.svc(['rollout', 'resume'], pusher)
  showPages(stage, maps)
}

/** A node that was away gets what is desired when it is back. */
async function comeBackLate(stage: DemoStage, { hub, agents, pusher }: Fleet): Promise<void> {
  const name = 'plant-5'
  stage.say(`${name} is drained and switched off. A push leaves it out`)
  await stage.svc(['fleet', 'drain', name], { env: hub.admin })
  await agents.get(name)?.stop()
  replaceInPage(stage, 'Books & Maps', 'Books, Maps & Tea')
  await stage.svc(['push', '-m', 'And tea'], pusher)
  const tea = 'Harbour Books, Maps & Tea'
  showPages(stage, { [name]: 'Harbour Books & Maps', others: tea })

  stage.say(`It is back, and gets the release by itself`)
  const env = { SVC_HOME: join(stage.directory, name, 'home') }
  stage.say(`${name}$ svc agent`)
  agents.set(name, stage.start(['agent'], { cwd: name, env }))
  await stage.svc(['fleet', 'undrain', name], { env: hub.admin })
  const page = join(stage.directory, name, 'www/index.html')
  while (!readFileSync(page, 'utf8').includes('Tea'))
    await stage.svc(['fleet', 'nodes'], { env: hub.admin, isQuiet: true })
  showPages(stage, tea)
  await stage.svc(['rollout', 'list'], pusher)
}

/** The hub is restored from a backup that lacks a release, and goes on with its nodes. */
async function restoreHub(stage: DemoStage, fleet: Fleet): Promise<void> {
  const { hub, pusher } = fleet
  const backup = join(stage.directory, 'hub.zip')
  stage.say('A backup of the hub. After it, a release that the backup lacks')
  await stage.svc(['backup', backup], { env: homeOfHub(stage) })
  replaceInPage(stage, 'Maps & Tea', 'Maps, Tea & Toys')
  await stage.svc(['push', '-m', 'And toys'], pusher)
  const toys = 'Harbour Books, Maps, Tea & Toys'
  showPages(stage, toys)

  stage.say('The hub loses its disk, and is restored. The nodes know a release that it does not, and keep it')
  await hub.service.stop()
  await stage.svc(['restore', '--force', backup], { env: homeOfHub(stage) })
  fleet.hub = await startHub(stage, new URL(hub.url).port, hub.admin)
  await connected(stage, fleet.hub)
  showPages(stage, toys)

  stage.say('The next push reaches all nodes')
  replaceInPage(stage, 'Maps, Tea & Toys', 'Maps & Tea')
  await stage.svc(['push', '-m', 'No toys any more'], pusher)
  showPages(stage, 'Harbour Books, Maps & Tea')
}

const stage = openStage('svc-demo-fleet-')
for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))
let interrupt = (): void => process.exit(1)
process.on('SIGINT', () => interrupt())
try {
  stage.say('A hub: an ordinary server')
  const hub = await startHub(stage)
  const agents = await enrollNodes(stage, hub)
  const fleet: Fleet = { hub, agents, pusher: await placeProject(stage, hub) }
  await rollOut(stage, fleet)
  await haltAndRevert(stage, fleet)
  await comeBackLate(stage, fleet)
  await restoreHub(stage, fleet)
  const missing = withoutEtcd()
  if (missing === false) await showSeveralHubs(stage, fleet)
  else stage.say(`The second half, with several hubs, is left out: ${missing}. Install it: apt-get install etcd-server`)
  stage.say(`The panel: ${hub.url}/`)
  stage.print(`Admin token: ${hub.admin['SVC_TOKEN']}`)
  if (process.stdout.isTTY) {
    stage.print('Ctrl-C stops everything and removes what it wrote.')
    await new Promise<void>(resolve => (interrupt = resolve))
  }
} finally {
  await stage.end()
}
