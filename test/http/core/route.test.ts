import t from 'tap'
import { json, jsonBody, publicBody } from '../../../lib/http/core/route.js'

t.test('creates a JSON reply with 200 and no headers by default', async t => {
  t.strictSame(json({ a: 1 }), { kind: 'json', status: 200, body: { a: 1 } })
  t.strictSame(json([], 201, { location: '/a' }), { kind: 'json', status: 201, body: [], headers: { location: '/a' } })
})

t.test('limits a body from anybody more than one from a known client', async t => {
  t.ok(publicBody.maxBytes < jsonBody.maxBytes)
  t.ok(publicBody.totalMs < jsonBody.totalMs)
})
