import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import type { Marks } from '../../lib/model/marks.js'
import { startCluster } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

const today = new Date().toISOString().slice(0, 10)
const later = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10)
const approval = { count: 1, roles: ['operator'], notPusher: true, hours: 24 }
const closed = { windows: { allow: [], freeze: [{ from: today, to: later, reason: 'audit' }], tz: 'UTC' } }

t.test('what waits for people, a time or a window, waits on at the next hub', { skip: withoutEtcd() }, async t => {
  const { cwd, urls, hubs, roleOf, startAgain } = await startCluster(t, ['n1', 'n2'])
  const projectOf = async (name: string, policy: object) => {
    const project = await hubs[0].createProject({ name, deployPath: join(cwd, name) })
    const add = ['n1', 'n2'].map(node => ({ node, deployPath: join(cwd, node, name) }))
    await hubs[0].api('PATCH', `/api/projects/${project.id}/placements`, { add, remove: [] })
    await hubs[0].changeProject(project.id, { policy })
    return project
  }
  const textOf = (name: string, node = 'n1'): string => {
    try {
      return readFileSync(join(cwd, node, name, 'a.txt'), 'utf8')
    } catch {
      return ''
    }
  }
  const newest = async (at: 0 | 1, projectId: string): Promise<Deployment> => {
    const [row] = await hubs[at].deployments(projectId)
    return row as Deployment
  }
  const ends = (at: 0 | 1, projectId: string) =>
    until(async () => (await newest(at, projectId)).status === 'success', { what: `success of ${projectId}` })
  const asked = await projectOf('asked', { approval })
  const refused = await projectOf('refused', { approval })
  const timed = await projectOf('timed', {})
  const waves = await projectOf('waves', { rollout: { canary: 1, then: '1', pause: 'approve' } })
  const frozen = await projectOf('frozen', closed)
  const confirm = { seconds: 3600 }
  const confirmed = await projectOf('confirmed', { confirm })
  const reverted = await projectOf('reverted', { confirm })
  const expiresAt = new Date(Date.now() + 86_400_000)
  const { token } = await hubs[0].api<{ token: string }>('POST', '/api/tokens', {
    name: 'ben',
    role: 'operator',
    expiresAt
  })
  const by = (secret: string) => ({ cwd, env: { SVC_SERVER_URL: urls[1], SVC_TOKEN: secret } })

  mkdirSync(join(cwd, 'dist'))
  writeFileSync(join(cwd, 'dist', 'a.txt'), 'frozen')
  // The hub that answers is killed.
  const upload = async (project: Project, fields = {}): Promise<void> => {
    const { finished } = await hubs[0].upload(project, { 'a.txt': project.name }, fields)
    finished.catch(() => {})
  }
  for (const project of [asked, refused, waves, confirmed, reverted]) await upload(project)
  const startAt = new Date(Date.now() + 60_000).toISOString()
  await upload(timed, { startAt })
  let said = ''
  const pushed = svc(['push', '--out', 'dist', '--project', frozen.id, '--wait', '--server', urls[1]], {
    cwd,
    env: { SVC_DEPLOY_TOKEN: frozen.token },
    onOutput: text => void (said = text)
  })
  const waitFor = async (at: 0 | 1) =>
    (await hubs[at].api<Marks>('GET', '/api/marks')).waiting
      .map(
        each =>
          `${each.for} ${[asked, refused, timed, waves, confirmed, reverted].find(({ id }) => id === each.projectId)?.name}`
      )
      .sort()
  const all = [
    'approval asked',
    'approval refused',
    'approval waves',
    'confirmation confirmed',
    'confirmation reverted',
    'schedule timed'
  ]
  await until(async () => (await waitFor(0)).length === all.length, { what: 'all that waits' })
  t.same(await waitFor(0), all)
  await until(() => /audit/.test(said), { what: 'the push that waits for a window' })

  await hubs[0].stop('SIGKILL')
  await until(async () => (await roleOf(1)) === 'leader')
  await until(async () => (await waitFor(1).catch(() => [])).length === all.length)
  t.same(await waitFor(1), all, 'the same waits for the same')
  t.same([textOf('asked'), textOf('refused'), textOf('timed'), textOf('frozen')], ['', '', '', ''])

  const held = await newest(1, asked.id)
  t.match(held, { status: 'queued', heldFor: 'approval' })
  t.match(await svc(['approve', held.id, '--yes'], by(token)), { code: 0, stdout: `Approved ${held.id}\n` })
  await ends(1, asked.id)
  t.same(
    ['n1', 'n2'].map(node => textOf('asked', node)),
    ['asked', 'asked']
  )
  const other = await newest(1, refused.id)
  t.match(await svc(['reject', other.id, '--yes', '--comment', 'not today'], by(token)), { code: 0 })
  t.match(await newest(1, refused.id), { status: 'failed', errorMessage: 'Rejected by ben: not today' })

  const rolloutId = (await hubs[1].api<{ rollouts: RolloutDetail[] }>('GET', `/api/rollouts?projectId=${waves.id}`))
    .rollouts[0]?.id as string
  t.match(await svc(['rollout', 'approve', rolloutId], by(token)), { code: 0 })
  await ends(1, waves.id)
  t.equal(textOf('waves', 'n2'), 'waves')

  // Their files are in place, and their earlier state is on the nodes.
  t.same([textOf('confirmed'), textOf('reverted', 'n2')], ['confirmed', 'reverted'])
  t.match(await svc(['confirm', (await newest(1, confirmed.id)).id], by(token)), { code: 0 })
  t.match(await newest(1, confirmed.id), { status: 'success', confirmSeconds: 3600 })
  const unwanted = await newest(1, reverted.id)
  t.match(await svc(['confirm', '--no', unwanted.id], by(token)), { code: 0 })
  t.match(await newest(1, reverted.id), { status: 'failed', revertReason: 'operator', revertedAt: /Z$/ })
  t.same(
    ['n1', 'n2'].map(node => textOf('reverted', node)),
    ['', '']
  )

  // A new archive needs two hubs that keep it.
  await startAgain(0)
  await hubs[1].changeProject(frozen.id, { policy: { windows: null } })
  const ended = await pushed
  t.equal(ended.code, 0, ended.stderr)
  t.equal(textOf('frozen'), 'frozen')

  await ends(1, timed.id)
  t.equal(textOf('timed'), 'timed')
  t.match(await newest(1, timed.id), { startAt })
  await ends(0, timed.id)
})
