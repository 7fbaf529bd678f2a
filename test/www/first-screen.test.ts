import { readFileSync } from 'node:fs'
import t from 'tap'
import { closureOf, moduleText } from './modules.js'

const page = readFileSync(new URL('../../../www/index.html', import.meta.url), 'utf8')

t.test('the page names every module that main.js and the overview need, so that they come at once', async t => {
  const named = [...page.matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, href]) => href).sort()
  const needed = new Set([...closureOf('main.js'), ...closureOf('pages/overview.js')])
  t.same(named, [...needed].filter(name => name !== 'main.js').sort())
})

t.test('the page has no script and no style of its own, as its policy asks', async t => {
  t.notMatch(page, /<style|style="|\son\w+=/)
  t.same([...page.matchAll(/<script[^>]*>([^<]*)</g)].map(([, inside]) => inside), [''])
  t.match(page, '<base href="/">', 'the line that the server changes')
})

t.test('no text of anybody becomes markup: the ways there are not taken', async t => {
  const ways = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/
  for (const name of closureOf('main.js', { isWhole: true })) t.notMatch(moduleText(name), ways, name)
})
