import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../lib/cli/command-table.js'
import { findProgram } from '../support/programs.js'
import { manualPages } from './manual.js'

const edition = { version: '1.2.3', madeAtSeconds: 1_700_000_000 }
const pages = await manualPages(edition)
/** Returns the text without the overstrikes that make it bold. */
const plain = (shown: string) => shown.replace(/.\x08/g, '')
const without = (program: string) => findProgram(program) === null && `${program} is not on this machine`

t.test('every command has a page with every option, and svc(1) names each', async t => {
  const overview = pages.find(({ name }) => name === 'svc.1')?.text ?? ''
  for (const { name, hidden, load } of commands) {
    if (hidden === true || name === 'help') continue
    const file = `svc-${name.replace(/[ :]/g, '-')}.1`
    const page = pages.find(found => found.name === file)?.text ?? ''
    t.match(page, /^\.TH SVC\\-.* 1 "2023-11-14" "svc 1\.2\.3"/m, file)
    const command = await load()
    for (const flag of Object.keys(command.options))
      t.ok(page.includes(flag.replaceAll('-', '\\-')), `${file}: ${flag}`)
    for (const heading of ['NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXAMPLES', 'EXIT STATUS'])
      t.ok(page.includes(`\n.SH ${heading}\n`), `${file}: ${heading}`)
    t.ok(overview.includes(`svc ${name}`.replaceAll('-', '\\-')), `svc.1 names ${name}`)
  }
  t.notMatch(overview, 'svc values')
})

t.test('a client has pages of its own commands only', async t => {
  const names = (await manualPages(edition, family => ['push', 'projects'].includes(family))).map(({ name }) => name)
  t.strictSame(names, [
    'svc.1',
    'svc-push.1',
    'svc-list.1',
    ...['create', 'show', 'set', 'token', 'delete'].map(name => `svc-projects-${name}.1`),
    'svc-search-components.1'
  ])
})

t.test('escapes text that roff would interpret', async t => {
  const reset = pages.find(({ name }) => name === 'svc-push.1')?.text ?? ''
  for (const line of pages.flatMap(({ text }) => text.split('\n'))) {
    if (!line.startsWith('.')) t.notOk(line.startsWith("'"), line)
    else t.match(line, /^\.(\\"|TH|SH|SS|PP|TP|B|I|BR|RI|RS|RE|nf|fi|nh|ad)( |$)?/, line)
  }
  t.match(reset, '\\fB\\-\\-set\\-env\\fR')
})

t.test('groff reads every page without a warning', { skip: without('groff') }, async t => {
  for (const { name, text } of pages) {
    const { stdout, stderr, status } = spawnSync('groff', ['-man', '-ww', '-Tutf8', '-P-c'], {
      input: text,
      encoding: 'utf8'
    })
    t.equal(stderr, '', name)
    t.equal(status, 0, name)
    t.match(plain(stdout), 'SYNOPSIS', name)
  }
})

t.test('mandoc reads every page without a warning', { skip: without('mandoc') }, async t => {
  for (const { name, text } of pages) {
    const { stdout, status } = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning'], { input: text, encoding: 'utf8' })
    t.equal(stdout, '', name)
    t.equal(status, 0, name)
  }
})

t.test('man shows a page by its name', { skip: without('man') }, async t => {
  const directory = t.testdir({})
  mkdirSync(join(directory, 'man1'))
  for (const { name, text } of pages) writeFileSync(join(directory, 'man1', name), text)
  const env = {
    PATH: process.env['PATH'],
    MANPATH: directory,
    MANWIDTH: '80',
    LC_ALL: 'C.UTF-8',
    MAN_KEEP_FORMATTING: ''
  }
  for (const page of ['svc', 'svc-push']) {
    const { stdout, stderr, status } = spawnSync('man', ['--warnings', '-P', 'cat', page], { env, encoding: 'utf8' })
    if (/minimized/.test(stdout + stderr)) {
      t.comment('skipped: the man of this machine is the stand-in of a minimal image')
      return
    }
    t.equal(stderr, '', page)
    t.equal(status, 0, page)
    t.match(plain(stdout), /EXIT STATUS/, page)
  }
})
