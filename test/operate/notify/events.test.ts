import t from 'tap'
import * as links from '../../../lib/operate/notify/events.js'
import {
  headlineOf,
  notificationOf,
  testNotification,
  tokenNotification,
  type DeploymentNotification
} from '../../../lib/operate/notify/events.js'
import { aReminder, occasion } from '../../support/occasion.js'
import { pageTable } from '../../../www/router.js'

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
