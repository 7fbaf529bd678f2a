import t from 'tap'
import * as links from '../../../lib/operate/notify/events.js'
import {
  headlineOf,
  notificationOf,
  testNotification,
  tokenNotification,
  type DeploymentNotification,
  createIncidents
} from '../../../lib/operate/notify/events.js'
import { aReminder, occasion } from '../../support/occasion.js'
import { pageTable } from '../../../www/router.js'
import { readDisk } from '../../../lib/operate/machine/resources.js'
import { statfsSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Incident } from '../../../lib/model/setting.js'
import type { DiskFigures } from '../../../lib/model/machine.js'
import type { FleetNode } from '../../../lib/model/node.js'
import { smallDisk } from '../../support/small-disk.js'
import { deleteNode, insertNode } from '../../../lib/core/store/tables/fleet.js'
import { toldIncidents } from '../../../lib/core/store/tables/server.js'
import { aNode } from '../../support/fleet-stage.js'
import { openStage } from '../../support/store.js'

const sentences: Array<
  [trigger: DeploymentNotification['trigger'], event: DeploymentNotification['event'], expected: string]
> = [
  ['cli', 'deploy_success', 'shop: deployment succeeded'],
  ['cli', 'deploy_failure', 'shop: deployment failed'],
  ['async_post_deploy', 'deploy_failure', 'shop: the post-deploy script in the background failed'],
  ['rollback', 'deploy_success', 'shop: rollback succeeded'],
  ['rollback', 'deploy_failure', 'shop: rollback failed'],
  ['manual', 'deploy_success', 'shop: deployment marked as successful'],
  ['manual', 'deploy_failure', 'shop: deployment marked as failed'],
  ['test', 'webhook_test', 'test message: notifications arrive here']
]

for (const [trigger, event, expected] of sentences) {
  t.test(`describes ${trigger}, ${event} in a sentence`, async t => {
    t.equal(headlineOf({ trigger, event, project: occasion().project }), expected)
  })
}

t.test('a notification has its time, and the test message has every field', async t => {
  const atMs = Date.parse('2030-01-02T03:04:05.678Z')
  const real = notificationOf(occasion(), atMs, 'https://deploy.example.org/tools/svc')
  t.equal(real.timestamp, '2030-01-02T03:04:05.678Z')
  t.equal(real.url, 'https://deploy.example.org/tools/svc/deployments/dep_1')
  const test = testNotification(atMs, 'https://deploy.example.org/tools/svc')
  t.equal(test.url, 'https://deploy.example.org/tools/svc/', 'the deployment does not exist')
  t.equal(notificationOf(occasion(), atMs, null).url, null)
  t.equal(testNotification(atMs, null).url, null)
  t.same(Object.keys(test).sort(), Object.keys(real).sort())
  t.match(test, { event: 'webhook_test', trigger: 'test', errorMessage: null, deployment: { rollbackOf: null } })
})

t.test('a reminder names the token, its days and the page of the tokens', async t => {
  const atMs = Date.parse('2030-01-02T03:04:05.678Z')
  const notification = tokenNotification(aReminder(), atMs, 'https://deploy.example.org')
  t.match(notification, { event: 'token_expiring', trigger: 'expiry', timestamp: '2030-01-02T03:04:05.678Z' })
  t.match(notification, { token: { name: 'ci-shop' }, daysLeft: 14, url: 'https://deploy.example.org/access' })
  t.equal(tokenNotification(aReminder(), atMs, null).url, null)
  t.equal(headlineOf(notification), 'the token "ci-shop" expires in 14 days')
  const { token } = notification
  t.equal(headlineOf({ event: 'token_expiring', token, daysLeft: 1 }), 'the token "ci-shop" expires in 1 day')
  const lockedUntil = '2030-01-02T03:19:05.678Z'
  const locked = tokenNotification({ token, lockedUntil }, atMs, null)
  t.match(locked, { event: 'token_locked', trigger: 'wrong_codes', token: { name: 'ci-shop' }, lockedUntil })
  t.match(headlineOf(locked), `"ci-shop" is locked until ${lockedUntil}`)
})

t.test('each page is below the public address with its prefix, and null without an address', async t => {
  const { deploymentPage, rolloutPage, projectPage, nodePage, tokensPage, storagePage, systemPage } = links
  const prefix = 'https://deploy.example/svc'
  t.equal(deploymentPage(prefix, 'dep_a'), `${prefix}/deployments/dep_a`)
  t.equal(deploymentPage('https://deploy.example', 'a/b'), 'https://deploy.example/deployments/a%2Fb')
  t.equal(rolloutPage(prefix, 'ro_a'), `${prefix}/rollouts/ro_a`)
  t.equal(projectPage(prefix, 'proj_a'), `${prefix}/projects/proj_a`)
  t.equal(nodePage(prefix, 'node_a'), `${prefix}/nodes/node_a`)
  t.same(
    [tokensPage, storagePage, systemPage].map(page => page(prefix)),
    [`${prefix}/access`, `${prefix}/storage`, `${prefix}/system`]
  )
  t.same(
    [deploymentPage, rolloutPage, projectPage, nodePage].map(page => page(null, 'a')),
    [null, null, null, null]
  )
  t.same(
    [tokensPage, storagePage, systemPage].map(page => page(null)),
    [null, null, null]
  )
})

t.test('each page exists in the panel', async t => {
  const paths = ['deployments/:id', 'rollouts/:id', 'projects/:id', 'nodes/:node', 'access', 'storage', 'system']
  const known = new Set(pageTable.map(({ path }) => path))
  t.same(
    paths.filter(path => !known.has(path)),
    []
  )
})

/** Incidents on a real store, with what they look at. */
async function openIncidents(t: Parameters<typeof openStage>[0], disk?: () => Promise<DiskFigures>) {
  const { store, clock } = await openStage(t)
  const told: Incident[] = []
  const seen = { lost: [] as FleetNode[], connected: new Set<string>(), percentUsed: 10 }
  const start = () =>
    createIncidents({
      store,
      clock,
      tell: incident => void told.push(incident),
      disk: async () => ({
        path: '/data',
        ...(disk === undefined ? { freeBytes: 1, totalBytes: 2, percentUsed: seen.percentUsed } : await disk())
      }),
      nodes: () => seen,
      log(message, error) {
        throw new Error(message, { cause: error })
      }
    })
  return { store, told, seen, start }
}

t.test('a disk that becomes low is told of once, until it has space again', async t => {
  const { told, seen, start } = await openIncidents(t)
  const looks = async (percentUsed: number): Promise<number> => {
    seen.percentUsed = percentUsed
    await start().look()
    return told.length
  }
  t.equal(await looks(89), 0)
  t.equal(await looks(90), 1)
  t.equal(await looks(99), 1, 'each look is by another start of the server')
  t.equal(await looks(86), 1)
  t.equal(await looks(91), 1, 'it wavers')
  t.equal(await looks(84), 1)
  t.equal(await looks(92), 2)
  t.match(told[0], { event: 'disk_low', disk: { path: '/data', percentUsed: 90 } })
})

t.test('a real disk that fills up', async t => {
  const directory = smallDisk(t, 1024 * 1024)
  if (directory === null) return
  const { told, start } = await openIncidents(t, () => readDisk(directory))
  await start().look()
  t.same(told, [])
  const { bsize, blocks } = statfsSync(directory)
  writeFileSync(join(directory, 'big'), Buffer.alloc(bsize * Math.ceil(blocks * 0.92)))
  await start().look()
  t.match(told, [{ event: 'disk_low', disk: { percentUsed: Number } }])
  truncateSync(join(directory, 'big'))
  await start().look()
  t.equal(told.length, 1)
})

t.test('a lost node is told of once, until it is connected again', async t => {
  const { store, told, seen, start } = await openIncidents(t)
  const node: FleetNode = { ...aNode('a'), name: 'web-1', lastSeenAt: '2030-01-01T00:00:00.000Z' }
  await store.write(tx => insertNode(tx, node))
  seen.lost = [node]
  await start().look()
  await start().look()
  t.match(told, [{ event: 'node_lost', node: { id: 'node_a', name: 'web-1' }, projectIds: [] }])
  seen.lost = []
  await start().look()
  seen.lost = [node]
  await start().look()
  t.equal(told.length, 1, 'a server that has just started does not know yet whether it is lost')
  seen.lost = []
  seen.connected.add('node_a')
  await start().look()
  seen.connected.clear()
  seen.lost = [node]
  await start().look()
  t.equal(told.length, 2)
  seen.lost = []
  await store.write(tx => deleteNode(tx, node.id))
  await start().look()
  t.same(toldIncidents(store), [], 'nothing is left of a node that was forgotten')
})
