import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t, { type Test } from 'tap'
import { findRefusals, type Text } from '../support/refusals.js'
import { top } from './document.js'

/*
 * A smoke detector for wording: phrases that mark prose which a reader has to parse twice, the form of error messages,
 * and doc comments. `WORDING=lib/deploy node dist/test/documents/wording.test.js` checks one directory and prints each
 * finding.
 */

// The sources are parsed as a whole: seconds, or a minute on a busy machine.

/** Each occurrence of these is a sentence to rewrite. A space also matches a line break within a comment. */
const phrases = [
  'what came of|what comes of|comes of it',
  'that counts here|goes on counting',
  'as far as (that|it|they|one|is)',
  'whoever|nobody else.s|one.s own',
  'anew',
  'has none|is no name|: none is',
  'comes to its turn|its turn came|waits for its turn|in its turn',
  'no longer is|what was there|what is there|what stands',
  'lies beside',
  'tells of|tells all of|is said|are said',
  'another program does',
  'so that it may|who may|what makes|by what (it|they|is|the)',
  'that goes on|goes on without|is over(?! \\d)|has its end|come to an end',
  'it is one (of|like|part)|means nothing|can be meant',
  'holds up (no|nobody|nothing|itself)|(can|to) be had',
  'is not possible here|nothing is at'
]

/** Written by others, generated, or the list itself. */
const exempt =
  /^(package-lock\.json|LICENSE|docs\/pictures\/|test\/fixtures\/|www\/icons\/|test\/documents\/wording\.test\.ts)/
const only = process.env['WORDING'] ?? ''

const isKept = (path: string): boolean => path.startsWith(only) && !exempt.test(path)

/** The text files of the repository, below its top. */
const files = ['.ci', 'bin', 'docs', 'lib', 'test', 'www', '.']
  .flatMap(directory =>
    readdirSync(join(top, directory), { recursive: directory !== '.', withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(entry => relative(top, join(entry.parentPath, entry.name)))
  )
  .filter(isKept)

/** The text of a file, without the released part of the changelog and the examples of the old wording. */
function read(path: string): string {
  const text = readFileSync(join(top, path), 'utf8')
  if (path === 'CHANGELOG.md') return text.replace(/^## 1\.0\.0[^]*/m, '')
  return path === 'CONTRIBUTING.md' ? text.replace(/^\|.*$/gm, '') : text
}

const isOfLib = only === '' || only.startsWith('lib')

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length

function report(t: Test, found: string[], what: string): void {
  if (only !== '') for (const line of found) t.comment(line)
  t.strictSame(found, [], `${found.length} ${what}`)
}

t.test('no text contains a phrase of the old wording', async t => {
  const gap = '(?:[ \\t]|\\n[ \\t]*(?:\\*|//|#|>)?[ \\t]*)'
  const pattern = new RegExp(`(?<![\\w-])(?:${phrases.join('|').replaceAll(' ', gap)})(?![\\w-])`, 'gi')
  const found = files.flatMap(path => {
    const text = read(path)
    return [...text.matchAll(pattern)].map(
      ({ 0: phrase, index }) => `${path}:${lineAt(text, index)} ${phrase.replace(/\s+/g, ' ')}`
    )
  })
  report(t, found, 'phrases')
})

/** Where the admin token alone is meant, as nothing else will do. */
const adminTokenOnly: Readonly<Record<string, number>> = {
  'lib/auth/bearer.ts': 1,
  'lib/backup/format.ts': 1,
  'lib/cli/commands/session.ts': 1,
  'lib/store/schema.ts': 1
}

t.test('no text asks for the admin token where a named one will do', async t => {
  const pattern = /\b(?:needs?|requires?|accepts?|with|use) the admin token\b(?!\$\{orNamed|,?\s+(?:or|a named)\b)/gi
  const counts: Record<string, number> = {}
  for (const path of files.filter(path => /^(docs|lib|www|README)/.test(path))) {
    const found = [...read(path).matchAll(pattern)].length
    if (found > 0) counts[path] = found
  }
  const listed = Object.entries(adminTokenOnly).filter(([path]) => isKept(path))
  t.strictSame(counts, Object.fromEntries(listed), 'each of them is listed above')
})

t.test('documents name the versions of Node.js that package.json names', async t => {
  const { engines } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { engines: { node: string } }
  const least = /\d+/.exec(engines.node)?.[0]
  const found = files
    .filter(path => /^(docs\/.*\.md|README\.md)$/.test(path))
    .flatMap(path =>
      [...read(path).matchAll(/Node\.js (\d+)(?:\.\d+)? (?:or|and) newer/g)].map(([words, version]) => ({
        path,
        words,
        version
      }))
    )
    .filter(({ version }) => version !== least && version !== '20')
  t.strictSame(found, [], `svc runs on ${engines.node}; tests and builds need 20`)
})

/** Names of programs, options, fields and files keep their spelling. */
const isName = /^(svc\b|--|[a-z]+[-A-Z_./:][A-Za-z])/

function flaw({ head, tail, line, path }: Text): string[] {
  const place = `${path}:${line}`
  const said = [
    ...(head !== null && /^[a-z]/.test(head) && !isName.test(head)
      ? [`${place} begins with a small letter: ${head}`]
      : []),
    ...(tail?.endsWith('.') ? [`${place} ends with a period: ${tail}`] : [])
  ]
  return isKept(path) ? said : []
}

t.test(
  'the sentence of every refusal begins with a capital letter and has no final period',
  { skip: !isOfLib },
  async t => {
    const found = [...new Set(findRefusals().flatMap(({ sentences }) => sentences.flatMap(flaw)))]
    report(t, found, 'sentences')
  }
)

t.test(
  'every exported function, class, interface and constant has a doc comment that begins with its subject',
  async t => {
    const exported = /^export (?:async |abstract )*(?:function\*?|class|interface|const) (\w+)/gm
    const found = files
      .filter(path => /^(lib|www)\/.*\.ts$/.test(path))
      .flatMap(path => {
        const text = read(path)
        const declarations = [...text.matchAll(exported)]
        return declarations.flatMap(({ 1: name, index }, at) => {
          // Only the first of several overloads is described.
          if (name === declarations[at - 1]?.[1]) return []
          const comment = /\/\*\*(?:[^*]|\*(?!\/))*\*\/\n(?:\/\/ biome-ignore.*\n)?$/.exec(text.slice(0, index))?.[0]
          const place = `${path}:${lineAt(text, index)} ${name}`
          if (comment === undefined) return [`${place}: no doc comment`]
          return /^\/\*\*[\s*]*Of /.test(comment) ? [`${place}: begins with "Of"`] : []
        })
      })
    report(t, found, 'declarations')
  }
)
