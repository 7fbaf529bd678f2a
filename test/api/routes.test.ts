import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import { publicBody } from '../../lib/http/core/route.js'
import { startServer } from '../support/server.js'

/**
 * All routes of the API, as a list for people. Add and remove routes here, too. access.test.ts tests their
 * authorization.
 */
const promised = `
GET /api/health public
GET /api/health/detail admin
POST /api/auth/login public
GET /api/auth/whoami token
GET /api/auth/session admin
DELETE /api/auth/session admin
GET /api/sessions admin
DELETE /api/sessions/:id admin
POST /api/auth/reset local
POST /api/tickets admin
GET /api/projects admin
POST /api/projects admin
POST /api/projects/bulk admin
GET /api/projects/:id admin
PUT /api/projects/:id admin
DELETE /api/projects/:id admin
POST /api/projects/:id/token admin
PUT /api/projects/:id/pin admin
GET /api/projects/:id/overview admin
GET /api/projects/:id/recent-scripts admin
GET /api/projects/:id/variables admin
PUT /api/projects/:id/variables admin
PATCH /api/projects/:id/variables admin
PUT /api/projects/:id/lock own
DELETE /api/projects/:id/lock own
GET /api/projects/:id/maintenance read
PUT /api/projects/:id/maintenance own
GET /api/projects/:id/tree read
GET /api/projects/:id/verify read
GET /api/projects/:id/drift read
GET /api/projects/:id/drift/file read
GET /api/projects/:id/files admin
GET /api/projects/:id/file admin
GET /api/projects/:id/download admin_download
GET /api/locks read
PUT /api/lock admin
DELETE /api/lock admin
GET /api/categories admin
POST /api/categories admin
PUT /api/categories/:id admin
DELETE /api/categories/:id admin
GET /api/tags admin
POST /api/tags admin
PUT /api/tags/:id admin
DELETE /api/tags/:id admin
GET /api/deploy/check upload_check
POST /api/deploy/plan upload_check
POST /api/deploy/upload upload
POST /api/deployments/:id/rollback operate
POST /api/projects/:id/undo operate
POST /api/projects/:id/repair operate
POST /api/deployments/:id/cancel own
POST /api/deployments/:id/confirm own
POST /api/deployments/:id/revert own
PATCH /api/deployments/:id/status admin
GET /api/deployments/:id/files read
GET /api/deployments/:id/changes read
GET /api/logs read
GET /api/logs/:deployId read
GET /api/logs/:deployId/stream read
GET /api/logs/:deployId/output download
GET /api/projects/:id/log-sources admin
POST /api/projects/:id/log-sources admin
GET /api/log-sources admin
POST /api/log-sources/bulk admin
PATCH /api/log-sources/:sourceId admin
DELETE /api/log-sources/:sourceId admin
GET /api/log-sources/:sourceId/meta admin
GET /api/log-sources/:sourceId/range admin
GET /api/log-sources/:sourceId/download admin_download
GET /api/log-sources/:sourceId/stream admin
GET /api/log-sources/:sourceId/search admin
GET /api/settings admin
GET /api/settings/schema admin
PUT /api/settings admin
POST /api/settings/token admin
GET /api/settings/status admin
POST /api/settings/webhook-test admin
GET /api/notification-targets admin
POST /api/notification-targets admin
PUT /api/notification-targets/:id admin
DELETE /api/notification-targets/:id admin
POST /api/notification-targets/:id/test admin
GET /api/audit admin
GET /api/storage admin
POST /api/storage/clean admin
POST /api/public/telemetry/report public
GET /api/public/telemetry/overview public
GET /api/overview admin
GET /api/changes admin
GET /api/system/resources admin
GET /api/system/history admin
GET /metrics metrics
GET /api/pm2/available admin
GET /api/pm2/apps admin
GET /api/projects/:id/pm2 admin
GET /api/stats/heatmap admin
GET /api/stats/success-rate admin
GET /api/stats/durations admin
GET /api/search admin
GET /api/fs/home admin
GET /api/fs/list admin
GET /api/migration/export admin_download
POST /api/migration/import admin
GET /api/migration/verify admin
GET /api/backup local
GET /api/terminal/available admin
GET /api/terminal/ws terminal
GET /api/openapi.json public
`

t.test('the routes', async t => {
  const stage = await startServer(t)

  t.test('the table contains exactly the listed routes', async t => {
    const routes = apiRoutes(stage.server.services.api)
    t.equal(routes.map(({ method, path, auth }) => `${method} ${path} ${auth}`).join('\n'), promised.trim())
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
