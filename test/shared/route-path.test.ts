import t from 'tap'
import { routePath } from '../../lib/shared/route-path.js'

t.test('the path of a route, with its parameters', async t => {
  t.equal(routePath('GET /api/projects', {}), '/api/projects')
  t.equal(routePath('PUT /api/projects/:id/lock', { id: 'a/b ü' }), '/api/projects/a%2Fb%20%C3%BC/lock')
  t.equal(
    routePath('GET /api/rollouts/:rolloutId/nodes/:node', { rolloutId: 'r', node: 'n' }),
    '/api/rollouts/r/nodes/n'
  )
})
