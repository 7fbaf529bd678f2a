import { Validator } from '@seriousme/openapi-schema-validator'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { errorCodes } from '../../lib/api/errors.js'
import { createDescription, operationOf } from '../support/described.js'
import { startServer } from '../support/server.js'

const path = fileURLToPath(new URL('../../../docs/openapi.json', import.meta.url))
const { document, routes } = createDescription()

t.test('the document is valid OpenAPI 3.1', async t => {
  const result = await new Validator().validate(structuredClone(document) as never)
  t.strictSame([result.valid, result.errors], [true, undefined])
})

t.test('docs/openapi.json is the document that the program serves', async t => {
  const text = `${JSON.stringify(document, null, 2)}\n`
  if (process.env['UPDATE_DOCS']) writeFileSync(path, text)
  t.equal(readFileSync(path, 'utf8'), text, 'UPDATE_DOCS=1 writes it')
})

t.test('every route is described, and nothing else', async t => {
  for (const route of routes) t.ok(operationOf(document, route), `${route.method} ${route.path}`)
  t.equal(Object.values(document.paths).flatMap(each => Object.keys(each)).length, routes.length)
})

t.test('every error code is used and has a meaning', async t => {
  const used = new Set(
    JSON.stringify(document)
      .match(/(?<="enum":\[)[^\]]*(?=\])/g)
      ?.flatMap(list => JSON.parse(`[${list}]`) as string[])
  )
  for (const [code, { means }] of Object.entries(errorCodes)) {
    t.match(means, /^[A-Z].*[^.]$/, code)
    if (code !== 'method_not_allowed') t.ok(used.has(code), `${code} is used`)
  }
})

t.test('the server serves the document, also below a prefix', async t => {
  const { client } = await startServer(t, { base: '/tools/svc' })
  const { status, body, headers } = await client.get('/api/openapi.json')
  t.equal(status, 200)
  t.equal((await client.get('/api/openapi.json', { 'if-none-match': headers.etag as string })).status, 304)
  t.match(body, { openapi: '3.1.0', servers: [{ url: '..' }] })
  t.strictSame(Object.keys(body.paths), Object.keys(document.paths))
})

t.test('a wrong choice for a parameter is answered with a code that the document has', async t => {
  // The client of the tests compares the code with the document.
  const { client } = await startServer(t)
  const { status, body } = await client.get('/api/health?check=nobody')
  t.match({ status, body }, { status: 400, body: { code: 'invalid_field', field: 'check' } })
})
