import { readdirSync } from 'node:fs'
import t from 'tap'
import { addWords, countWords, language, setLanguage, t as say, type Words } from '../../../www/words/t.js'
import { closureOf, compiled, moduleText } from '../modules.js'

t.teardown(() => setLanguage('en'))

t.test('returns an English text with its placeholders filled', async t => {
  setLanguage('en')
  t.equal(language(), 'en')
  addWords({ Overview: '概览' })
  t.equal(say('Overview'), 'Overview')
  t.equal(say('{count} of {all}', { count: 2, all: 'many' }), '2 of many')
  t.equal(say('{missing}', {}), '{missing}')
  t.equal(countWords(1, 'file'), '1 file')
  t.equal(countWords(2000, 'file'), '2,000 files')
})

t.test('translates into another language and falls back to English', async t => {
  setLanguage('zh')
  addWords({ 'Loading {what}': '正在加载{what}', file: '个文件' })
  t.equal(say('Loading {what}', { what: 'x' }), '正在加载x')
  t.equal(say('Never translated'), 'Never translated')
  t.equal(countWords(2000, 'file'), '2,000 个文件')
})

/** Patterns of texts in a module: `t('…')`, rows with `words: '…'`, nouns of counts, and names of resources. */
const said = [
  /\bt\('((?:[^'\\]|\\.)+)'/g,
  /\bt\("((?:[^"\\]|\\.)+)"/g,
  /\bwords: '((?:[^'\\]|\\.)+)'/g,
  /\bcountWords\([^']*?, '([^']+)'\)/g,
  /\bloaded\([^']*?, '([^']+)'/g
]
/** Rows whose words are not translated: the names of the languages. */
const own = new Set(['English', '中文'])

function textsOf(modules: readonly string[]): Array<{ text: string; name: string }> {
  return modules
    .filter(name => !name.startsWith('words/'))
    .flatMap(name =>
      said.flatMap(pattern =>
        [...moduleText(name).matchAll(pattern)].map(([, text]) => ({
          text: (text as string).replace(/\\(.)/g, '$1'),
          name
        }))
      )
    )
}

async function tableOf(name: string): Promise<Words> {
  return (await import(new URL(`words/zh/${name}.js`, compiled).href)).words
}

t.test('every text of the frame and of each page has a Chinese translation', async t => {
  const frame = await tableOf('frame')
  const holes = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).sort()
  const pages = readdirSync(new URL('pages/', compiled))
    .filter(name => name.endsWith('.js') && name !== 'page.js')
    .map(name => name.slice(0, -3))
  const rooms = [
    ['frame', ['main.js', 'overlays.js', 'elements/base/svc-palette.js', 'elements/settings/svc-preferences.js']],
    // The banner above the pages of a node uses the words of the page of the node.
    ...pages.map(name => [name, name === 'node' ? ['pages/node.js', 'node-site.js'] : [`pages/${name}.js`]])
  ] as Array<[name: string, entries: string[]]>
  for (const [name, entries] of rooms) {
    const isFrame = name === 'frame' || name === 'lost'
    const table = isFrame ? frame : { ...frame, ...(await tableOf(name)) }
    const modules = entries.flatMap(entry => closureOf(entry, { isWhole: !isFrame }))
    const texts = textsOf([...new Set(modules)]).filter(({ text }) => !own.has(text))
    t.ok(texts.length > 0, `${name} contains texts`)
    const missing = texts.filter(({ text }) => !(text in table)).map(({ text, name }) => `${name}: ${text}`)
    t.same(missing, [], `every text of ${name} is in words/zh/${name}.ts`)
  }
  for (const file of readdirSync(new URL('words/zh/', compiled)).filter(name => name.endsWith('.js'))) {
    for (const [english, chinese] of Object.entries(await tableOf(file.slice(0, -3)))) {
      // The panel shows the original sentence below its translation, so a translation may omit a value.
      const expected = english.startsWith('server:')
        ? holes(english).filter(hole => holes(chinese).includes(hole))
        : holes(english)
      t.same(holes(chinese), expected, `“${english}” keeps its placeholders`)
    }
  }
})
