import { readFileSync } from 'node:fs'
import t from 'tap'
import { pageTable } from '../../www/router.js'
import { startServer } from '../support/server.js'
import { closureOf, moduleText } from './modules.js'

const page = readFileSync(new URL('../../../www/index.html', import.meta.url), 'utf8')

t.test('the page has no inline script or style, as its policy requires', async t => {
  t.notMatch(page, /<style|style="|\son\w+=/)
  t.same(
    [...page.matchAll(/<script[^>]*>([^<]*)</g)].map(([, inside]) => inside),
    ['']
  )
  t.match(page, '<base href="/">', 'the line that the server changes')
})

t.test('no module uses a function that turns text into markup', async t => {
  const ways = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/
  for (const name of closureOf('main.js', { isWhole: true })) t.notMatch(moduleText(name), ways, name)
})

t.test('each address preloads the modules of its page, and all of them exist', async t => {
  const stage = await startServer(t, { base: '/deploy' })
  const open = (path: string, language = 'en') =>
    stage.as(null).get(`/${path}`, { accept: 'text/html', 'accept-language': language })
  const known = new Map<string, string>()
  for (const { path, module } of pageTable) {
    const { text, headers } = await open(path.replace(/:\w+/g, 'some_id'))
    t.equal(headers['cache-control'], 'no-cache')
    const [, main] = /<script type="module" src="([^"]+)"/.exec(text) as unknown as [string, string]
    t.match(main, /^_[0-9a-f]{16}\/main\.js$/)
    const named = [...text.matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, href]) => href as string)
    t.ok(
      named.some(href => href.endsWith(`/pages/${module}.js`)),
      path
    )
    t.ok(named.length <= 40, `${path}: ${named.length} modules`)
    t.match(text, /<link rel="stylesheet" href="_[0-9a-f]{16}\/styles\/panel.css">/)
    // Their static imports are preloaded, too, so that no module is discovered late.
    for (const href of [main, ...named]) {
      if (!known.has(href)) {
        const reply = await stage.as(null).get(`/${href}`)
        t.match(
          reply,
          {
            status: 200,
            headers: { 'cache-control': 'public, max-age=31536000, immutable', 'content-type': /javascript/ }
          },
          href
        )
        known.set(href, reply.text)
      }
      const imported = [...(known.get(href) as string).matchAll(/^import \{[^}]*\} from '([^']+)'/gm)]
      for (const [, specifier] of imported) {
        const wanted = new URL(specifier as string, `http://host/${href}`).pathname.slice(1)
        t.ok(wanted === main || named.includes(wanted), `${path}: ${wanted}`)
      }
    }
  }
  t.match((await open('projects', 'zh-CN,zh;q=0.9,en;q=0.8')).text, /words\/zh\/frame\.js[^]*words\/zh\/projects\.js/)
  t.notMatch((await open('projects', 'de,en;q=0.9,zh;q=0.8')).text, 'words/zh/')
  t.equal((await stage.as(null).get('/_0123456789abcdef/main.js')).status, 404, 'another build')
})
