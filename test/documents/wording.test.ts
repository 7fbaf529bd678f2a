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

/** Where the sources mean the admin token alone, as nothing else will do. */
const adminTokenOnly: Readonly<Record<string, number>> = {
  'lib/access/bearer.ts': 1,
  'lib/carry/backup/format.ts': 1,
  'lib/cli/commands/session.ts': 1,
  'lib/core/store/schema.ts': 1
}

t.test('no source asks for the admin token where a named one will do', async t => {
  const pattern = /\b(?:needs?|requires?|accepts?|with|use) the admin token\b(?!\$\{orNamed|,?\s+(?:or|a named)\b)/gi
  const counts: Record<string, number> = {}
  for (const path of files.filter(path => /^(lib|www)/.test(path))) {
    const found = [...read(path).matchAll(pattern)].length
    if (found > 0) counts[path] = found
  }
  const listed = Object.entries(adminTokenOnly).filter(([path]) => isKept(path))
  t.strictSame(counts, Object.fromEntries(listed), 'each of them is listed above')
})

/** Words of the sentences for users that mean exactly the admin token, by their reason. A "^" is the beginning. */
const adminTokenMeant: Readonly<Record<string, readonly string[]>> = {
  'svc makes it, shows it, or the user has lost it': [
    'generates the admin token, and prints',
    'never print the admin token',
    'prints the admin token like',
    'prints the address and the admin token',
    'the admin token is printed neither',
    'and where the admin token is',
    '^the admin token is in `config.json`',
    '^it has an admin token of its own in',
    '^## the admin token is lost'
  ],
  'it is replaced, or not there yet': [
    'set a new admin token',
    '^the new admin token',
    'set the admin token without the old one',
    'reset the admin token without the old one',
    '^change the admin token',
    '^the current admin token',
    '^replace the admin token, every deploy token',
    'changes? of the admin token',
    'an admin token that replaces',
    'overrides the stored admin token',
    'no admin token yet',
    'has an admin token and has recovered',
    'also for the deploy tokens and the admin token'
  ],
  'it is part of what a file or the database contains': [
    '`config.json` (the admin token)',
    '`config.json` (admin token)',
    'every token, including the admin token',
    'headers of checks, the admin token, the audit log',
    'an HMAC of the admin token',
    '^the admin token, the key of the server, and',
    'of a hub repeats the admin token',
    '^the admin token, the deploy tokens of every project',
    '^the admin token and the deploy tokens, hashes',
    '^- the admin token, the key of the server'
  ],
  'the owner of the data directory has it anyway': [
    'is the holder of the admin token for the leader',
    'has the admin token for the leader',
    'of the data directory act with the admin token',
    '^get the admin token and the addresses of the server',
    'gets the admin token and the address from the socket'
  ],
  'what it cannot do, or is too strong for': [
    '^never use the admin token in CI',
    'the same care as the admin token',
    '^the admin token does not upload',
    'the admin token on the upload a 401',
    'admin token has no second factor',
    '^the admin token cannot have one',
    '^the admin token cannot be revoked'
  ],
  'it is one of several kinds of tokens': [
    '^admin token$',
    '^the admin token.?$',
    '^the admin token and the deploy tokens of projects have no name',
    'null for the admin token',
    'and the admin token may roll back',
    "with the admin token or an operator's"
  ]
}

/** Returns the sentences, cells and items of the documents (with the help of commands) and of the description of the API. */
function sentencesForUsers(): string[] {
  const documents = files.filter(path => /^(docs\/.*\.md|README\.md)$/.test(path)).map(read)
  const paragraphs = documents.map(text => text.replace(/\n(?![\n|#-]| *- )\s*/g, ' '))
  const described: string[] = []
  JSON.parse(readFileSync(join(top, 'docs/openapi.json'), 'utf8'), (key, value) => {
    if (/^(description|summary)$/.test(key) && typeof value === 'string') described.push(value)
    return value
  })
  return [...paragraphs, ...described].flatMap(text =>
    text.split(/\n|(?<=[.:;!?])\s+|\*\*|\|/).map(sentence => sentence.trim())
  )
}

/** Returns the pattern of words; `?` after a letter and `$` keep their meaning. */
const wordsPattern = (words: string): RegExp => new RegExp(words.replace(/[.()`](?!\?)/g, '\\$&'), 'i')

t.test('texts for users say that a named token with the role will do', { skip: only !== '' }, async t => {
  const patterns = Object.values(adminTokenMeant).flat().map(wordsPattern)
  const said = sentencesForUsers().filter(sentence => /\badmin token\b/i.test(sentence))
  const silent = said.filter(sentence => !/\bnamed\b/.test(sentence))
  const found = silent.filter(sentence => !patterns.some(pattern => pattern.test(sentence)))
  t.strictSame([...new Set(found)], [], 'name the role, or list the words above with the reason')
  const unused = patterns.filter(pattern => !silent.some(sentence => pattern.test(sentence)))
  t.strictSame(unused, [], 'the list has no words that no text says')
})

/** Where texts mean Node.js of those who build or test svc, which need more than svc itself. */
const isOfDevelopment = /\b(checkout|build|tests?)\b/
const ofDevelopment = 20
/** A program of docs/streams.md uses `WebSocket` of Node.js. */
const ofExample = /^The JavaScript one needs Node 22\b/

t.test('texts name the versions of Node.js that package.json names', { skip: only !== '' }, async t => {
  const { engines } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { engines: { node: string } }
  const least = Number(/\d+/.exec(engines.node)?.[0])
  const wrong = (sentence: string): boolean =>
    [...sentence.matchAll(/\bNode(?:\.js)?,? (?:version )?v?(\d+)(?:\.(\d+))?/g)].some(([, major, minor = '0']) => {
      if (Number(major) === ofDevelopment) return !isOfDevelopment.test(sentence)
      return Number(major) !== least || Number(minor) !== 0
    })
  const sentences = [...sentencesForUsers(), ...read('docs/Dockerfile').split('\n')]
  t.strictSame(
    sentences.filter(sentence => wrong(sentence) && !ofExample.test(sentence)),
    [],
    `svc runs on ${engines.node}; tests and builds need ${ofDevelopment}`
  )
  t.ok(sentences.some(sentence => sentence.includes(`Node.js ${least}`)))
  t.ok(wrong('It needs Node.js 16 or newer') && wrong('Node 18.17 is enough') && wrong('svc runs on Node.js 20'))
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
  'a doc comment of something exported begins with its subject; it may be left out where it would only repeat the name',
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
          return /^\/\*\*[\s*]*Of /.test(comment ?? '')
            ? [`${path}:${lineAt(text, index)} ${name}: begins with "Of"`]
            : []
        })
      })
    report(t, found, 'declarations')
  }
)
