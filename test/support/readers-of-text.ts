import './without-dom.js'
import { createIgnore } from '../../lib/core/archive/walk.js'
import { compileGlob, isGlob } from '../../lib/base/glob.js'
import { parseDotenv, parseJsonObject } from '../../lib/base/config/files.js'
import { plainText } from '../../lib/cli/terminal/terminal-text.js'
import { chooseCoding } from '../../lib/http/core/reply.js'
import { parseHeaderValue } from '../../lib/http/core/headers.js'
import { levelOfLine, timeOfLine } from '../../lib/base/shared/log-line.js'
import { createTerminalModes } from '../../lib/operate/terminal/flow.js'
import { parseJlist } from '../../lib/operate/pm2.js'
import { withoutCredentials } from '../../lib/model/provenance.js'
import { codeLanguages } from '../../www/elements/base/code-languages.js'
import { readCode } from '../../www/elements/base/svc-code.js'
import { parseAnsi, plainStyle } from '../../www/elements/logs/log-format.js'
import { linksIn, piecesOf } from '../../www/elements/logs/log-line.js'

/** A function that reads text from outside, and the beginning of a text that leads it to its repetitions. */
export interface Reader {
  begin: string
  read(text: string): unknown
}

const links = (text: string): unknown => piecesOf([{ text, style: plainStyle }], linksIn(text), [])
const plain = (read: (text: string) => unknown, begin = ''): Reader => ({ begin, read })

const ignored = createIgnore({ builtin: true, project: ['*.log', 'a*b', '/x/*/*.y', '**/*z'], cli: [] })

/** What reads text from outside with several expressions, or with one that is computed. */
export const readers: Readonly<Record<string, Reader>> = {
  'a .env file': plain(parseDotenv),
  'a .env file, in a value': plain(parseDotenv, 'A="'),
  'a .env file, after a value': plain(parseDotenv, "export A = '' "),
  'a configuration': plain(text => refused(() => parseJsonObject(text, 'x'))),
  'a configuration, in a text': plain(text => refused(() => parseJsonObject(text, 'x')), '{"a":"'),
  codings: plain(chooseCoding),
  'codings, after one': plain(chooseCoding, 'gzip'),
  'a header': plain(parseHeaderValue, 'form-data; name="'),
  'a glob': plain(text => isGlob(text)),
  'a glob, compiled': plain(text => refused(() => compileGlob(text).matches('a/b'))),
  'a path, for the rules of a walk': plain(text => ignored.judge(text, false, { isIgnored: false, rank: -1 })),
  'text for a terminal': plain(plainText),
  'the time of a line': plain(text => timeOfLine(text, 0)),
  'the level of a line': plain(levelOfLine),
  'the list of PM2': plain(parseJlist, '[{"name":"'),
  'the address of a repository': plain(withoutCredentials, 'git@'),
  'colours of a line': plain(text => parseAnsi(text, plainStyle)),
  'colours of a line, in a sequence': plain(text => parseAnsi(text, plainStyle), '\u001b['),
  'modes of a terminal': plain(text => createTerminalModes().read(text), '\u001b['),
  'modes of a terminal, in a string': plain(text => createTerminalModes().read(text), '\u001b]0;'),
  'links of a line': plain(links, 'http://a'),
  ...Object.fromEntries(
    Object.keys(codeLanguages).map(language => [`code in ${language}`, plain(text => readCode(text, language))])
  )
}

function refused(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}
