import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import {
  addWords,
  countWords,
  language,
  t as say,
  setLanguage,
  type Words,
  errorWords,
  fieldLabels,
  serverWords
} from '../../../www/words/t.js'
import { auditActions } from '../../../lib/base/shared/audit.js'
import { actionRows, detailWords } from '../../../www/audit-words.js'
import { closureOf, compiled, moduleText } from '../modules.js'
import { errorCodes } from '../../../lib/api/errors.js'
import { newProjectFields } from '../../../lib/model/project-fields.js'
import { settingRows } from '../../../lib/projects/settings.js'
import { settingLabels } from '../../../www/elements/settings/setting-groups.js'
import { wordsOf } from '../../../www/router.js'
import { Refused, Unreachable } from '../../../www/server/client.js'
import { words as frame } from '../../../www/words/zh/frame.js'
import { words as project } from '../../../www/words/zh/project.js'
import { words } from '../../../www/words/zh/server.js'

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

/** Patterns of texts in a module: `t('…')`, rows with `words: '…'` and other texts, nouns of counts, and names of resources. */
const said = [
  /\bt\('((?:[^'\\]|\\.)+)'/g,
  /\bt\("((?:[^"\\]|\\.)+)"/g,
  /\b(?:words|hint|heading|add):\s*'((?:[^'\\]|\\.)+)'/g,
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
    .filter(name => name.endsWith('.js') && !/(^|-)page\.js$/.test(name))
    .map(name => name.slice(0, -3))
  const rooms = [
    ['frame', ['main.js', 'overlays.js', 'elements/base/svc-palette.js', 'elements/settings/svc-preferences.js']],
    // The banner above the pages of a node uses the words of the page of the node.
    ...pages.map(name => [name, name === 'node' ? ['pages/node.js', 'node-site.js'] : [`pages/${name}.js`]])
  ] as Array<[name: string, entries: string[]]>
  for (const [name, entries] of rooms) {
    const isFrame = name === 'frame' || name === 'lost'
    const table = isFrame ? frame : { ...frame, ...(await tableOf(wordsOf(name))) }
    const modules = entries.flatMap(entry => closureOf(entry, { isWhole: !isFrame }))
    const texts = textsOf([...new Set(modules)]).filter(({ text }) => !own.has(text))
    t.ok(texts.length > 0, `${name} contains texts`)
    const missing = texts.filter(({ text }) => !(text in table)).map(({ text, name }) => `${name}: ${text}`)
    t.same(missing, [], `every text of ${name} is in words/zh/${wordsOf(name)}.ts`)
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

t.teardown(() => setLanguage('en'))

const refused = (error: string, code: string, field?: string): Refused => new Refused(400, { error, code, field }, null)

t.test('every error code of the API has a Chinese text, and no other code has one', async t => {
  const said = Object.keys(words)
    .filter(key => key.startsWith('code:'))
    .map(key => key.slice('code:'.length))
  t.same(said.sort(), Object.keys(errorCodes).sort())
})

t.test('every sentence of the table is a sentence of the server', async t => {
  const source = sourcesBelow(new URL('../../../lib/', import.meta.url)).join('\n')
  for (const key of Object.keys(words).filter(key => /^(server|detail):/.test(key))) {
    const pieces = key
      .replace(/^\w+:/, '')
      .split(/\{\w+\}/)
      .flatMap(piece => piece.split(/[",;:()]|(?<=\b(?:project|deployment|attempt))s\b/))
    const missing = pieces
      .map(piece => piece.trim().replace(/ (projects?|deployments?|attempts?|failed|at)$/, ''))
      .filter(piece => piece.length > 3 && !source.includes(piece))
    // The panel itself shows this sentence for a response without one.
    if (!key.includes('without saying why')) t.same(missing, [], key)
  }
})

t.test('shows an error in English with the label of its field', async t => {
  setLanguage('en')
  t.equal(
    errorWords(refused('deployPath is invalid: "x" is not an absolute path', 'invalid_field', 'deployPath')),
    '“Directory on the server” is invalid: "x" is not an absolute path'
  )
  t.equal(
    errorWords(refused('"allowedEnv[2]" cannot be "PATH": it is never taken', 'invalid_field', 'allowedEnv[2]')),
    '“Allowed push variables” cannot be "PATH": it is never taken'
  )
  t.equal(
    errorWords(refused('The name "name" is already used: names must be unique, ignoring case', 'name_taken', 'name')),
    'The name "name" is already used: names must be unique, ignoring case'.replace('"name"', '“Name”'),
    'its field is shown by its label'
  )
  t.equal(
    errorWords(
      refused('"max_upload_size" cannot be set: "x" is not a whole number', 'invalid_setting', 'max_upload_size'),
      settingLabels
    ),
    '“Maximum archive size” cannot be set: "x" is not a whole number'
  )
  t.equal(
    errorWords(new Unreachable(null)),
    'The server cannot be reached: check that it runs, and the network between.'
  )
})

t.test('translates a sentence with its values into Chinese, followed by the English one', async t => {
  setLanguage('zh')
  addWords({ ...frame, ...project })
  const said = (error: string, code: string, field?: string): string[] =>
    errorWords(refused(error, code, field)).split('\n')
  const sentence =
    'deployPath is invalid: "/x" leads to "/etc", which is a directory of the system; choose one below it'
  t.match(said(sentence, 'invalid_field', 'deployPath'), [/^服务器上的目录不可用：“\/x”指向“\/etc”/, sentence])
  t.same(said('"name" is empty', 'invalid_field', 'name'), ['“名称”不能为空', '"name" is empty'])
  t.same(
    said('A sentence nobody has translated', 'disk_full'),
    ['磁盘空间不足', 'A sentence nobody has translated'],
    'the code is translated'
  )
  t.same(
    said('"umask" is odd', 'invalid_field', 'umask')[0],
    `${project['Umask'] ?? 'Umask'}：值不正确`,
    'the code is translated with the field'
  )
  t.same(said('New', 'code_of_a_newer_server'), ['New'], 'the sentence of an unknown code is kept')
  t.same(errorWords(refused('', 'unknown')).split('\n').length, 1)
  t.match(errorWords(new Unreachable(null)), /^无法连接服务器/, 'the sentence of the browser')
  t.equal(
    serverWords('The check command failed: exit code 1: no; the earlier files are back').split('\n')[0],
    '检查“命令”失败：退出码 1：no；先前的文件已恢复'
  )
  t.match(
    serverWords('The deployPath of "a", /srv/a, does not exist yet').split('\n')[0],
    '“a”在服务器上的目录 /srv/a 尚不存在'
  )
  t.match(
    serverWords('Extracting the archive failed: no space left on device at "/x". Free some space and deploy again'),
    '解压失败：磁盘空间不足（“/x”）'
  )
})

t.test('what checks, waits and rollouts say is Chinese as a whole', async t => {
  setLanguage('zh')
  const kinds = ['did not pass within 30 s', 'passed, and then failed', 'failed']
  const endings = ['', '; the earlier files are back, dep_1 is live']
  const answers = [
    ...['exit code 1', 'exit code 1: 坏', 'killed by the signal SIGKILL', 'killed by the signal SIGTERM: 坏', '503'],
    ...['it ran longer than its time limit', 'no answer within 5 s', 'no connection within 5 s', 'connection refused'],
    ...['200, but the first 64 KiB do not contain "好"', '"坏" is not a known host', 'the connection was closed'],
    ...['"坏" is neither this machine nor in the setting gate_hosts', 'PM2 does not run "坏"', 'restarted 2 times'],
    ...['stopped', 'errored', 'found: 坏', '"(" is not a regular expression', '"坏" is not like "127.0.0.1:5432"']
  ]
  const checks = ['command', 'command 2', 'pm2 online', 'tcp 127.0.0.1:5432', 'log 访问', 'http://localhost/']
  const sentences = [
    ...kinds.flatMap(kind =>
      answers.flatMap(answer => endings.map(ending => `The check command ${kind}: ${answer}${ending}`))
    ),
    'The checks did not pass 9 times in a row within 5 s; the earlier files are back',
    ...checks.map(check => `The check ${check} did not pass within 5 s: connection refused`),
    ...['Rejected by 张', 'Rejected by 张: 不', 'Reverted by 张', 'Nobody confirmed the deployment within 60 s'],
    ...['Nobody confirmed the deployment in time', 'Nobody approved the deployment before 2030-01-01'],
    ...[
      'No node is left',
      '2 failed (allowed: 1)',
      '2 nodes unreachable (allowed: 0)',
      '张 stopped it',
      '张 reverts it'
    ],
    'Another hub leads the cluster now',
    'The hub was restored from a backup, and nodes may have had later releases. Push again, or resume it',
    'Nobody confirmed the deployment in time; the earlier files are not back yet: permission denied. ' +
      'The next start or deployment tries again'
  ]
  // Values, and what has the same name everywhere.
  const same = /SIG[A-Z]+|PM2|TCP|KiB|gate_hosts|dep_1|http:\/\/localhost\//g
  for (const sentence of sentences) {
    const [first = '', original] = serverWords(sentence).split('\n')
    t.equal(original, sentence)
    t.notMatch(first.replace(same, ''), /[A-Za-z]{2}/, `${sentence} → ${first}`)
  }
})

t.test('each action of the audit log has words', t => {
  t.same(actionRows.map(({ action }) => action).sort(), [...auditActions].sort())
  t.end()
})

t.test('shows the changes of an entry with labels, times and values in words', t => {
  setLanguage('en')
  t.equal(
    detailWords('project.update', 'shop\ndeployPath: /a → /b\npostDeployScript: none → SHA-256 1f'),
    'shop; Directory on the server: /a → /b; Post-deploy script: none → SHA-256 1f'
  )
  t.notMatch(detailWords('token.update', 'ana\nexpiresAt: 2030-01-01T00:00:00.000Z → 2030-02-01T00:00:00.000Z'), /Z/)
  setLanguage('zh')
  t.equal(detailWords('project.update', '\ntoken: changed'), '部署令牌: 已更改')
  t.end()
})

t.test('translates details of the audit log that are sentences, and keeps data', async t => {
  setLanguage('zh')
  t.equal(detailWords('auth.login_failed', '3 failed attempts, the address is locked'), '3 次失败，该地址已锁定')
  t.equal(detailWords('project.variables', 'set A, B; removed C'), '设置 A, B；删除 C')
  t.equal(detailWords('project.create', 'set sail'), 'set sail', 'the name of a project')
  t.equal(detailWords('project.update', 'name, deployPath'), '名称, 服务器上的目录')
  setLanguage('en')
  t.equal(detailWords('project.update', 'name, deployPath'), 'Name, Directory on the server')
  t.equal(detailWords('project.variables', 'set A'), 'set A')
})

t.test('translates each kind of sentence in the audit log', async t => {
  setLanguage('zh')
  t.teardown(() => setLanguage('en'))
  const sentences: Array<[action: string, detail: string]> = [
    ['audit.tree_broken', 'the entries 257 to 512 do not give the root of their block'],
    ['audit.tree_broken', 'the entries do not give its frontier'],
    ['audit.tree_broken', 'it does not begin with its checkpoint of 4711 entries'],
    ['audit.tree_broken', 'its frontier does not fit its size of 7 entries'],
    ['audit.tree_broken', 'entry 7 is missing, and no entry says that it was removed'],
    ['audit.tree_broken', 'hashes of the entries 1 to 7 are missing'],
    ['audit.tree_broken', 'entry 7 was changed'],
    ['auth.login', 'session'],
    ['deployment.repair', '1 file'],
    ['deployment.rollback', 'exactly to dep_a, forced'],
    ['deployment.rollback', 'to dep_a'],
    ['deployment.undo', 'of dep_a, forced'],
    ['deployment.upload', 'prune: force, forced'],
    ['deployment.upload', 'forced'],
    ['migration.export', 'everything: 2 projects, 3 deployments, 3 artifacts'],
    ['project.lock', 'renewed until 2026-11-23T18:00:00.000Z: work in progress'],
    ['project.maintenance_off', '".maintenance" is not in the target'],
    ['project.unlock', 'taken over from ana ("audit"): she is on holiday'],
    ['second_factor.recovery', 'ana, 9 left'],
    ['server.lock', 'until 2026-11-23T18:00:00.000Z: audit'],
    ['storage.clean', 'archives: 1, temporary files: 0, files without a record: 3, freed: 1.2 MB'],
    ['terminal.close', 'the server was stopped'],
    ['token.create', 'ci: deployer of proj_a proj_b, from 10.0.0.0/8, until 2027-01-01T00:00:00.000Z'],
    ['token.update', 'ana: admin of all projects, until 2027-01-01T00:00:00.000Z'],
    ['token.rotate', 'ci, overlap 3600 s']
  ]
  for (const [action, detail] of sentences) t.match(detailWords(action, detail), /[\u4e00-\u9fff]/, detail)
  t.equal(detailWords('project.lock', 'until 2026-11-23T18:00:00.000Z: audit'), '至 2026-11-23T18:00:00.000Z：audit')
})

t.test('every field of a project and every setting has a label', async t => {
  const hidden = ['postDeployAsync', 'pinned']
  t.same(
    Object.keys(newProjectFields).filter(name => !hidden.includes(name) && fieldLabels[name] === undefined),
    []
  )
  t.same(
    Object.values(fieldLabels).filter(label => !(label in frame)),
    [],
    'it is in Chinese on every page'
  )
  t.same(
    settingRows.map(({ key }) => key).filter(key => settingLabels[key] === undefined),
    []
  )
})

function sourcesBelow(directory: URL): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap(entry => {
    if (entry.isDirectory()) return sourcesBelow(new URL(`${entry.name}/`, directory))
    return entry.name.endsWith('.js') ? [readFileSync(new URL(entry.name, directory), 'utf8')] : []
  })
}
