import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { readReceipts, verifyReceipts, readTrustedKey } from '../../lib/core/proof/receipt-chain.js'
import { startCluster, type ClusterStage } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { svc, type Ended } from '../support/svc.js'
import { until } from '../support/until.js'

const nodes = ['n1', 'n2']
const firstWave = /^wave 1\/2 .*✓/m

interface Push {
  project: Project
  through: 0 | 1
  text: string
  pause: string
  /** What happens once, when the output matches. */
  at: RegExp
  then(): Promise<unknown>
}

/** Pushes a text through a hub. */
async function push({ cwd, urls }: ClusterStage, given: Push): Promise<Ended> {
  const { project, through, text, pause, at, then } = given
  mkdirSync(join(cwd, text), { recursive: true })
  writeFileSync(join(cwd, text, 'index.html'), text)
  let next: Promise<unknown> | null = null
  const words = ['push', '--project', project.id, '--server', urls[through], '--out', text, '--pause', pause]
  const ended = await svc(words, {
    cwd,
    env: { SVC_DEPLOY_TOKEN: project.token },
    onOutput(said) {
      if (at.test(said)) next ??= then()
    }
  })
  await next
  return ended
}

t.test('pushes survive the kill of the hub that leads', { skip: withoutEtcd() }, async t => {
  const stage = await startCluster(t, nodes)
  const { cwd, urls, hubs } = stage
  const project = await stage.placedProject('Shop', { canary: 1, then: '1' })
  const pages = (): string[] => nodes.map(name => readFileSync(join(cwd, name, 'www', 'index.html'), 'utf8'))

  // The first one is rolled out, and the second one waits for it, when the leader is killed.
  let waiting: Promise<Ended> | undefined
  const carried = await push(stage, {
    project,
    through: 1,
    text: 'one',
    pause: '10s',
    at: firstWave,
    then: () =>
      (waiting = push(stage, {
        project,
        through: 1,
        text: 'two',
        pause: '1s',
        at: /queued: 1 deployment/,
        then: () => hubs[0].stop('SIGKILL')
      }))
  })
  t.equal(carried.code, 0, carried.stderr)
  t.match(carried.stderr, /the connection was lost, reconnecting/)
  t.match(carried.stdout, /^→ this hub leads now; the deployment continues$/m)
  t.match(carried.stdout, /^wave 2\/2 .*✓/m, 'the output of the hub that continued it')
  const queued = await waiting
  t.match(queued, { code: 0 })
  t.match(queued?.stdout, /^→ this hub leads now; the deployment is queued again$/m)
  t.match(queued?.stdout, /^pause {5}1 s before wave 2\/2$/m, 'what the push has asked for')
  t.strictSame(pages(), ['two', 'two'])
  t.equal(await stage.roleOf(1), 'leader')
  const successes = [{ status: 'success' }, { status: 'success' }]
  t.match(await hubs[1].deployments(project.id), successes)
  await stage.startAgain(0)
  t.match(await hubs[0].deployments(project.id), successes, 'the killed hub has caught up')

  // The server of the push does not come back: it must say where to look.
  await until(async () => {
    const headers = { authorization: `Bearer ${project.token}` }
    const check = await fetch(`${urls[1]}/api/deploy/check?projectId=${project.id}`, { headers })
    return ((await check.json()) as { hubs: string[] }).hubs.length === 2
  })
  const cut = await push(stage, {
    project,
    through: 1,
    text: 'three',
    pause: '3s',
    at: firstWave,
    then: () => hubs[1].stop('SIGKILL')
  })
  t.not(cut.code, 0)
  t.match(cut.stderr, /Cannot reach the server/)
  const advice = `rollout status --server ${urls[0]} --project ${project.id}`
  t.match(cut.stderr, `another hub of the cluster continues the deployment. To see it: svc ${advice}\n`)
  const seen = await svc([...advice.split(' '), '--follow'], { cwd, env: { SVC_DEPLOY_TOKEN: project.token } })
  t.equal(seen.code, 0, seen.stderr)
  t.match(seen.stdout, /^done$/m)
  t.strictSame(pages(), ['three', 'three'])
  t.match(await hubs[0].deployments(project.id), [...successes, { status: 'success' }])

  // The hubs have led by turns, and there is one chain.
  const answer = await fetch(`${urls[0]}/api/receipts`, { headers: { authorization: `Bearer ${project.token}` } })
  const { receipts } = readReceipts(await answer.text(), 'the hub')
  const keys = receipts.slice(0, 1).map(({ receipt }) => readTrustedKey(receipt.server.key))
  const { chains, faults } = verifyReceipts(receipts, { keys, successors: [], revoked: new Set() })
  t.strictSame(faults, [])
  t.match(chains, [{ first: 1, last: 3 }])
  for (const { receipt } of receipts)
    t.match(receipt.nodes, { count: 2, items: nodes.map(node => ({ node, phase: 'good' })) })
})
