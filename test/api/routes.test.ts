import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import { publicBody } from '../../lib/http/core/route.js'
import { startServer } from '../support/server.js'

/**
 * All routes of the API, as a list for people. Add and remove routes here, too. access.test.ts tests their
 * authorization.
 */
const promised = `
GET /api/health public none
GET /api/health/detail viewer server
POST /api/auth/login public none
POST /api/auth/local local none
GET /api/auth/whoami token none
GET /api/auth/session viewer none
DELETE /api/auth/session viewer none
POST /api/auth/prove viewer none
POST /api/auth/second-factor viewer none
POST /api/auth/second-factor/confirm viewer none
DELETE /api/auth/second-factor viewer none
GET /api/sessions admin server
DELETE /api/sessions/:id admin server
POST /api/auth/reset local none
POST /api/tickets viewer none
GET /api/tokens admin server
POST /api/tokens admin server
DELETE /api/tokens/:id/second-factor admin server
GET /api/tokens/self token none
PATCH /api/tokens/:id admin server
POST /api/tokens/:id/rotate admin server
DELETE /api/tokens/:id admin server
GET /api/signing-keys admin server
POST /api/signing-keys admin server
POST /api/signing-keys/:id/revoke admin server
GET /api/access/report admin server
GET /api/projects viewer filtered
GET /api/families viewer filtered
GET /api/components read filtered
POST /api/projects admin server
POST /api/projects/bulk admin server
GET /api/projects/:id viewer project
PUT /api/projects/:id admin project
DELETE /api/projects/:id admin project
POST /api/projects/:id/token admin project
PUT /api/projects/:id/pin admin project
GET /api/projects/:id/overview viewer project
GET /api/projects/:id/recent-scripts admin project
GET /api/projects/:id/variables operator project
PUT /api/projects/:id/variables admin project
PATCH /api/projects/:id/variables admin project
PUT /api/projects/:id/lock manage project
DELETE /api/projects/:id/lock manage project
GET /api/projects/:id/maintenance read project
PUT /api/projects/:id/maintenance manage project
GET /api/projects/:id/tree read project
GET /api/projects/:id/verify read project
GET /api/projects/:id/drift read project
GET /api/projects/:id/drift/file fetch project
GET /api/projects/:id/files operator project
GET /api/projects/:id/file operator project
GET /api/projects/:id/download operator_download project
GET /api/locks read filtered
GET /api/marks read filtered
PUT /api/lock operator server
DELETE /api/lock operator server
GET /api/categories viewer filtered
POST /api/categories admin server
PUT /api/categories/:id admin server
DELETE /api/categories/:id admin server
GET /api/tags viewer filtered
POST /api/tags admin server
PUT /api/tags/:id admin server
DELETE /api/tags/:id admin server
GET /api/deploy/check upload_check given
GET /api/deploy/base upload_check given
POST /api/deploy/sums upload_check given
POST /api/deploy/plan upload_check given
POST /api/deploy/upload upload given
POST /api/uploads piece given
GET /api/uploads/:id piece given
PATCH /api/uploads/:id piece given
DELETE /api/uploads/:id piece given
POST /api/deployments/:id/rollback operate deployment
POST /api/projects/:id/promote promote project
POST /api/projects/:id/undo operate project
POST /api/projects/:id/repair operate project
POST /api/deployments/:id/cancel own deployment
POST /api/deployments/:id/approve approve deployment
POST /api/deployments/:id/reject approve deployment
GET /api/deployments/:id/plan read deployment
POST /api/deployments/:id/confirm own deployment
POST /api/deployments/:id/revert own deployment
PATCH /api/deployments/:id/status operator deployment
DELETE /api/deployments/:id/archive admin deployment
DELETE /api/unfinished-targets/:deployId admin server
GET /api/deployments/:id/files read deployment
GET /api/deployments/:id/attestations read deployment
GET /api/deployments/:id/attestations/:name download deployment
GET /api/deployments/:id/changes read deployment
GET /api/deployments/:id/receipt read deployment
GET /api/receipts read filtered
GET /api/logs read filtered
GET /api/logs/:deployId read deployment
GET /api/logs/:deployId/stream read deployment
GET /api/logs/:deployId/output download deployment
GET /api/projects/:id/log-sources viewer project
POST /api/projects/:id/log-sources admin project
POST /api/projects/:id/log-sources/pm2 admin project
GET /api/log-sources viewer filtered
POST /api/log-sources/bulk admin server
PATCH /api/log-sources/:sourceId operator logSource
DELETE /api/log-sources/:sourceId operator logSource
GET /api/log-sources/:sourceId/meta viewer logSource
GET /api/log-sources/:sourceId/range viewer logSource
GET /api/log-sources/:sourceId/download viewer_download logSource
GET /api/log-sources/:sourceId/stream viewer logSource
GET /api/log-sources/:sourceId/search viewer logSource
GET /api/nodes viewer filtered
GET /api/nodes/:node viewer filtered
PATCH /api/nodes/:node admin server
PUT /api/nodes/:node/drain operator server
DELETE /api/nodes/:node admin server
GET /api/nodes/:node/at/*path download given
GET /api/nodes/:node/terminal terminal server
GET /api/enrollments admin server
POST /api/enrollments admin server
DELETE /api/enrollments/:id admin server
GET /api/projects/:id/placements viewer project
PATCH /api/projects/:id/placements admin project
GET /api/rollouts read filtered
GET /api/rollouts/:rolloutId read rollout
GET /api/rollouts/:rolloutId/nodes/:node read rollout
GET /api/rollouts/:rolloutId/events read rollout
POST /api/rollouts/:rolloutId/halt manage rollout
POST /api/rollouts/:rolloutId/resume manage rollout
POST /api/rollouts/:rolloutId/revert manage rollout
POST /api/rollouts/:rolloutId/approve operate rollout
GET /api/settings admin server
GET /api/settings/schema admin server
PUT /api/settings admin server
POST /api/settings/token admin server
GET /api/settings/status viewer server
POST /api/settings/webhook-test admin server
GET /api/notification-targets admin server
POST /api/notification-targets admin server
PUT /api/notification-targets/:id admin server
DELETE /api/notification-targets/:id admin server
POST /api/notification-targets/:id/test admin server
GET /api/audit viewer filtered
GET /api/audit/checkpoint token none
GET /api/audit/proof token none
GET /api/audit/inclusion token none
POST /api/audit/key local none
GET /api/audit/export operator server
GET /api/storage admin server
POST /api/storage/clean admin server
POST /api/public/telemetry/report public none
GET /api/public/telemetry/overview public none
GET /api/overview viewer filtered
GET /api/changes viewer none
GET /api/system/resources viewer server
GET /api/system/history viewer server
GET /api/cluster viewer server
POST /api/cluster/key local none
GET /install.sh public none
GET /client.tgz public none
GET /agent.tgz public none
GET /metrics metrics server
GET /api/pm2/available operator none
GET /api/pm2/apps operator server
GET /api/projects/:id/pm2 operator project
GET /api/stats/heatmap viewer filtered
GET /api/stats/success-rate viewer filtered
GET /api/stats/durations viewer filtered
GET /api/search viewer filtered
GET /api/fs/home admin server
GET /api/fs/list admin server
GET /api/migration/export admin_download server
POST /api/migration/import admin server
GET /api/migration/verify admin server
GET /api/backup local none
GET /api/terminal/available admin server
GET /api/terminal/ws terminal server
POST /api/agent/enroll public none
POST /api/agent/session agent none
GET /api/agent/desired agent none
GET /api/agent/releases/:deployId agent none
GET /api/agent/blobs/:sha256 agent none
POST /api/agent/blobs/:sha256/ranges agent none
POST /api/agent/reports agent none
POST /api/agent/relays/:id agent none
GET /api/openapi.json public none
`

t.test('the routes', async t => {
  const stage = await startServer(t)

  t.test('the table contains exactly the listed routes', async t => {
    const routes = apiRoutes(stage.server.services.api)
    t.equal(
      routes.map(({ method, path, auth, scope }) => `${method} ${path} ${auth} ${scope}`).join('\n'),
      promised.trim()
    )
  })

  t.test('a refusal is sent before the body is read', async t => {
    const project = await stage.createProject('shop')
    const refusals = [
      { token: null, status: 401, code: 'unauthorized' },
      { token: 'a-token-that-nobody-has', status: 401, code: 'unauthorized' },
      { token: project.token, status: 403, code: 'forbidden' }
    ]
    for (const { token, status, code } of refusals) {
      t.match(await stage.as(token).send('POST', '/api/projects', { body: '{' }), {
        status,
        body: { success: false, error: String, code }
      })
    }
  })

  t.test('public routes accept only small bodies, for a short time', async t => {
    const open = apiRoutes(stage.server.services.api).filter(({ auth }) => auth === 'public')
    for (const { path, body = publicBody } of open) t.ok(body.maxBytes <= 8192 && body.totalMs <= 20_000, path)
    const large = { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token: 'x'.repeat(9000) }) }
    for (const { method, path } of open.filter(({ method }) => method === 'POST')) {
      t.match(await stage.as(null).send(method, path, large), { status: 413, body: { code: 'too_large' } }, path)
    }
  })

  t.test('HEAD is authorized like GET', async t => {
    t.equal((await stage.as(null).send('HEAD', '/api/projects')).status, 401)
    t.equal((await stage.client.send('HEAD', '/api/projects')).status, 200)
  })

  t.test('answers 404 for an unknown path and 405 for an unknown method', async t => {
    t.equal((await stage.as(null).get('/api/nothing')).status, 404)
    t.equal((await stage.client.get('/api/projects/a/b/c')).status, 404)
    const reply = await stage.client.send('PATCH', '/api/projects')
    t.equal(reply.status, 405)
    t.match(reply.headers.allow, /GET/)
    t.match(reply.headers.allow, /POST/)
  })
})
