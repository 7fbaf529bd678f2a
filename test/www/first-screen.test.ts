import { readFileSync } from 'node:fs'
import t from 'tap'

const compiled = new URL('../../www/', import.meta.url)
const page = readFileSync(new URL('../../../www/index.html', import.meta.url), 'utf8')

/** The modules that main.js cannot begin without, by their addresses below the base. */
function closureOf(entry: string): string[] {
  const found = new Set<string>()
  const visit = (url: URL): void => {
    const name = url.href.slice(compiled.href.length)
    if (found.has(name)) return
    found.add(name)
    for (const [, path] of readFileSync(url, 'utf8').matchAll(/^(?:import|export) [^'"()]*['"](\.[^'"]+)['"]/gm)) {
      visit(new URL(path as string, url))
    }
  }
  visit(new URL(entry, compiled))
  return [...found].sort()
}

t.test('the page names every module that main.js needs, so that they come at once', async t => {
  const named = [...page.matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, href]) => href).sort()
  t.same(named, closureOf('main.js').filter(name => name !== 'main.js'))
})

t.test('the page has no script and no style of its own, as its policy asks', async t => {
  t.notMatch(page, /<style|style="|\son\w+=/)
  t.same([...page.matchAll(/<script[^>]*>([^<]*)</g)].map(([, inside]) => inside), [''])
  t.match(page, '<base href="/">', 'the line that the server changes')
})

t.test('no text of anybody becomes markup: the ways there are not taken', async t => {
  const ways = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/
  for (const name of closureOf('main.js').concat(closureOf('pages/deployment.js'), closureOf('pages/project.js'))) {
    t.notMatch(readFileSync(new URL(name, compiled), 'utf8'), ways, name)
  }
})
