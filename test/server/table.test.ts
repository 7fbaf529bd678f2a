import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import { createTable } from '../../lib/server/table.js'
import type { Services } from '../../lib/server/services.js'
import { startServer } from '../support/server.js'

t.test('contains the routes of the API, and the panel for all other paths', async t => {
  // A row uses its handlers only when it is called.
  const api = new Proxy({}, { get: () => new Proxy({}, { get: () => () => {} }) })
  const table = createTable({ api } as Services, { base: '', publicUrl: null })
  t.same(
    table.routes.map(({ method, path }) => `${method} ${path}`),
    apiRoutes(api as never).map(({ method, path }) => `${method} ${path}`)
  )
  t.type(table.fallback, 'function')
})

t.test('names the modules that a page needs, in the language of the reader', async t => {
  const { url } = await startServer(t)
  const page = async (path: string, language: string): Promise<string> => {
    const reply = await fetch(`${url}/${path}`, { headers: { accept: 'text/html', 'accept-language': language } })
    const links = reply.headers.get('link') ?? ''
    return `${links}\n${await reply.text()}`
  }
  t.match(await page('projects', 'en'), /pages\/projects\.js/)
  t.notMatch(await page('projects', 'fr, en;q=0.5'), /words\/zh/)
  t.match(await page('projects', 'zh-CN, en'), /words\/zh\/projects\.js/)
})
