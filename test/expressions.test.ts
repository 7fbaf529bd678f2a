import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { expressionsIn, type Expression } from './support/expressions.js'
import type { Jobs } from './support/expression-worker.js'
import { readers } from './support/readers-of-text.js'

/*
 * A regular expression can take minutes for a text of a few thousand characters. No text from outside meets such an
 * expression, and no expression from outside runs in the thread that serves requests.
 */

const { literals, computed } = expressionsIn(fileURLToPath(new URL('../../', import.meta.url)), ['lib', 'www'])

const fixed = 'built of fixed parts'
const read = 'built of fixed parts, and tried as a reader of text below'
const thread = 'run by a search thread, which is ended when it is stuck'
const compiled = 'compiled to see whether it is valid, and never run'
const noText = 'not a method of a text'
const ofName = 'built of fixed parts, for the name of a project, which is short'

/** Every place that computes an expression, or makes one of a text, with the reason why it is harmless. */
const places: Readonly<Record<string, string>> = {
  'lib/api/log-sources.ts: viewer.search(source, { ...query, signal, caller }, event =>': noText,
  "lib/api/agent.ts: router.match('GET', path)": noText,
  'lib/api/projects.ts: components.search(searched, asked, signal)': noText,
  'lib/api/system.ts: doors.search()': noText,
  'lib/core/archive/walk.ts: new RegExp( `^(?:${ends.map(({ head, tail }) => `(?=${escape': read,
  'lib/core/archive/names.ts: new RegExp(`[\\\\u007f-\\\\u009f\\\\u2028\\\\u2029]|${invisibleChara': fixed,
  "lib/cli/commands/tail.ts: new RegExp(grep, ignoresCase ? 'i' : '')": 'of the user, in the process of the user',
  "lib/cli/commands/tail.ts: api.search(id, { q: pattern?.source ?? '^', ignoresCase: pat": noText,
  "lib/cli/server-file/format.ts: new RegExp( `^(settings\\\\.(${[...secretSettings, 'webhook_ur": fixed,
  'lib/model/family.ts: new RegExp(`^(.+?)(?:[-_. /]+|\\\\s*[([])(${words})\\\\d*[)\\\\]]?': ofName,
  "lib/model/family.ts: new RegExp(`^(.+?)[-_. /]+(${words})\\\\d*([-_. /]+.+)$`, 'i')": ofName,
  "lib/model/family.ts: new RegExp(`^(${words})\\\\d*[-_. /]+(.+)$`, 'i')": ofName,
  'lib/cli/terminal/terminal-text.ts: new RegExp(`[${directions}]`)': read,
  'lib/cli/terminal/terminal-text.ts: new RegExp(`[\\\\x00-\\\\x08\\\\x0b-\\\\x1f\\\\x7f-\\\\x9f${directions}]': read,
  "lib/cli/terminal/columns.ts: new RegExp( [ '[\\\\u1100-\\\\u115f\\\\u2329\\\\u232a\\\\u2e80-\\\\u303e": fixed,
  "lib/base/config/files.ts: new RegExp(`${name.source}(?:${value.source})[^\\\\r\\\\n]*$`, '": read,
  'lib/base/digests.ts: new RegExp(`^(${idForm(prefix)})\\\\.(${endings})$`)': fixed,
  'lib/deploy/files.ts: new RegExp( String.raw`^(?:[\\w-]{43}\\.(?:zip|index|pack|pack': fixed,
  'lib/deploy/files.ts: new RegExp( String.raw`^svc-(?:([0-9a-f]{12}-\\d+-\\d*)-)?(${i': fixed,
  'lib/base/config/files.ts: text.matchAll(assignment)': read,
  'lib/base/config/files.ts: withoutMark(text).matchAll(assignment)': read,
  'lib/base/config/files.ts: new RegExp(`${string.source}|${number.source}|true|false|nul': read,
  'lib/fleet/agent/agent.ts: live.search(projectId, stopping.signal)': noText,
  'lib/http/core/dispatch.ts: this.#router.match(exchange.method, path)': noText,
  'lib/cli/hints.ts: new RegExp(`(?<![\\\\w"])${name}(?![\\\\w"])`, \'g\')': fixed,
  "lib/core/install/guard.ts: new RegExp( '^/etc/((nginx|apache2|httpd|caddy|haproxy|light": fixed,
  "lib/core/install/helper-answers.ts: new RegExp(`^${name}:\\\\s*([\\\\d\\\\s]*?)$`, 'm')": fixed,
  "lib/core/install/helper-answers.ts: new RegExp(`^${name}:\\\\s*(\\\\w+)$`, 'm')": fixed,
  "lib/operate/logs/read/open.ts: new RegExp( '^(/private)?(/etc/(shadow|gshadow|sudoers|maste": fixed,
  "lib/operate/logs/search/pattern.ts: new RegExp(`^(?:${text})$`, flags.replace('m', ''))":
    'one part of a query, tried with one line end',
  'lib/operate/logs/search/pattern.ts: new RegExp(q, flags)': compiled,
  'lib/operate/logs/search/scan.ts: new RegExp(bytewise ?? source, `${flags}g`)': thread,
  'lib/operate/logs/search/scan.ts: new RegExp(source, flags)': thread,
  'lib/operate/logs/search/search-worker.ts: blocks?.search({ from: at, to: Math.min(to, at + blockBytes)': noText,
  'lib/operate/logs/search/search-worker.ts: new RegExp(source, flags)': thread,
  'lib/operate/logs/search/search.ts: thread.search({ index, from, to, size: this.#size })': noText,
  "lib/operate/machine/resources.ts: new RegExp(`^${name}:\\\\s+(\\\\d+) kB$`, 'm')": fixed,
  "lib/operate/machine/resources.ts: new RegExp(`^Pages ${kind}:\\\\s+(\\\\d+)\\\\.`, 'm')": fixed,
  'lib/model/policy.ts: new RegExp(source, flags)': compiled,
  "lib/base/shared/log-line.ts: new RegExp(`(?:${sequence.source})+`, 'my')": read,
  'lib/base/shared/api.ts: whole.matchAll(lineBreak)': fixed,
  'lib/operate/terminal/flow.ts: input.matchAll(pattern)': read,
  "lib/operate/terminal/flow.ts: new RegExp( [ '(?:\\\\x1b\\\\[|\\\\x9b)([0-?]*)([ -/]*[@-~])', '(?": read,
  "www/archive/gather.ts: new RegExp(`^${name.replaceAll('.', '\\\\.').replaceAll('*', '": fixed,
  "www/elements/base/svc-code.ts: new RegExp(markup, 'g')": read,
  "www/elements/base/svc-code.ts: new RegExp(matcherOf(language), 'g')": read,
  "www/elements/base/svc-code.ts: new RegExp(sources.map(source => `(${source})`).join('|'), '": read,
  "www/elements/logs/log-format.ts: new RegExp(forms.map(form => form.source).join('|'), 'g')": read,
  'www/elements/logs/log-format.ts: text.matchAll(sequence)': read,
  "www/elements/logs/log-line.ts: new RegExp( '^[\\\\u1100-\\\\u115f\\\\u2e80-\\\\u303e\\\\u3041-\\\\ua4cf": fixed,
  'www/elements/logs/log-line.ts: text.slice(0, maxSearched).matchAll(pattern)':
    'of the user, in the page of the user, with the first 5,000 characters of a line',
  "www/elements/logs/log-view.ts: new RegExp(`.{1,${most}}`, 'gu')": fixed,
  "www/elements/logs/log-view.ts: row.match(new RegExp(`.{1,${most}}`, 'gu'))": fixed,
  "www/state/log-search.ts: new RegExp(source, `g${ignoresCase ? 'i' : ''}${isUnicode ? ":
    'of the user, in the page of the user',
  "www/words/t.ts: new RegExp(`^${source.join('')}$`, 's')": fixed
}

t.test('every expression that is computed is listed', async t => {
  t.strictSame([...computed].sort(), Object.keys(places).sort())
})

/** Files with expressions that are slow for some text, with what keeps such a text away. */
const bounded: Readonly<Record<string, string>> = {
  'lib/operate/logs/search/pattern.ts': 'a query has at most 1,000 characters',
  'lib/cli/server-file/format.ts': 'the text is valid JSON, in which every string ends',
  'lib/base/json.ts': 'the text is valid JSON, in which every string ends',
  'www/elements/base/code-languages.ts': 'only parts of one expression, which is tried as "code in …" below'
}

const nameOf = ({ path, source }: Expression): string => `${path} ${source}`

/** Milliseconds of processor time for one text after which a thread is stuck. It takes a few of them otherwise. */
const stuckMs = 3000
const lookMs = 500

/** Returns the jobs at which a thread was stuck. */
async function stuckAmong(jobs: Jobs['jobs'], limitMs = stuckMs): Promise<Array<Expression | string>> {
  const stuck: Array<Expression | string> = []
  for (let from = 0; from < jobs.length; ) {
    const place = new Int32Array(new SharedArrayBuffer(8))
    const workerData: Jobs = { jobs, from, place }
    const worker = new Worker(new URL('./support/expression-worker.js', import.meta.url), { workerData })
    let isRunning = true
    const ended = new Promise<number>((resolve, reject) => {
      worker.once('error', reject)
      worker.once('exit', resolve)
    }).finally(() => (isRunning = false))
    for (let texts = -1, since = process.cpuUsage(); isRunning; ) {
      await Promise.race([ended, sleep(lookMs)])
      const now = Atomics.load(place, 1)
      // Before the first text the thread loads what it runs, which may take longer than the limit.
      if (now !== texts || now === 0) since = process.cpuUsage()
      texts = now
      if (process.cpuUsage(since).user >= limitMs * 1000) await worker.terminate()
    }
    await ended
    from = Atomics.load(place, 0)
    if (from < jobs.length) stuck.push(jobs[from++] as Expression | string)
  }
  return stuck
}

t.test('no expression is slow for a long text', async t => {
  const all = new Map(literals.map(each => [`${each.source}/${each.flags}`, each]))
  const jobs = [...all.values()].filter(each => bounded[each.path] === undefined)
  const stuck = await stuckAmong(jobs)
  t.strictSame(
    stuck.map(each => nameOf(each as Expression)),
    []
  )
  const paths = new Set(literals.map(({ path }) => path))
  t.strictSame(
    Object.keys(bounded).filter(path => !paths.has(path)),
    [],
    'what is listed exists'
  )
})

t.test('no reader of a text from outside is slow for a long text', async t => {
  t.strictSame(await stuckAmong(Object.keys(readers)), [])
})

t.test('a slow expression is found', async t => {
  const slow = [/(a+)+b/, /\s+$/].map(({ source, flags }) => ({ path: 'x', source, flags }))
  const fast = [/(?<!a)a+b/g, /(?<!\s)\s+$/].map(({ source, flags }) => ({ path: 'x', source, flags }))
  t.strictSame(await stuckAmong([...fast, ...slow], 800), slow)
})
