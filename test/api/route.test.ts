import t from 'tap'
import { param } from '../../lib/api/route.js'
import type { ApiRequest } from '../../lib/api/route.js'

t.test('a parameter that the path does not contain is a bug, not a refusal', async t => {
  const request = { params: { id: 'proj_a' } } as unknown as ApiRequest
  t.equal(param(request, 'id'), 'proj_a')
  t.throws(() => param(request, 'deployId'), /no parameter "deployId"/)
})
