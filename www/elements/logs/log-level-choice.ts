import { html, type Template } from '../../dom/html.js'
import { type LogLevel, logLevels } from '../../shared/log-line.js'
import { t } from '../../words/t.js'

/** The label of each level. */
const levelWords: Readonly<Record<LogLevel, string>> = {
  error: 'Errors',
  warn: 'Warnings and worse',
  info: 'Info and worse',
  debug: 'Lines with a level'
}

/** Returns a field that chooses the minimum level of lines, or all lines. */
export function levelChoice(level: LogLevel | null, choose?: (level: LogLevel | null) => void): Template {
  const changed = (event: Event): void => choose?.(levelOf((event.currentTarget as HTMLSelectElement).value))
  return html`
    <select class="level" name="level" aria-label="${t('Level')}" @change="${changed}">
      <option value="" .selected="${level === null}">${t('All levels')}</option>
      ${logLevels.map(
        each => html`
        <option value="${each}" .selected="${each === level}">${t(levelWords[each])}</option>`
      )}
    </select>`
}

/** Returns the level that a field or an address names, or null for all lines. */
export function levelOf(given: unknown): LogLevel | null {
  return logLevels.find(each => each === given) ?? null
}

/** Returns the sentence for a log without lines to show. */
export function noneWords(level: LogLevel | null): string {
  return level === null
    ? t('Nothing written yet.')
    : t('No loaded line has this level. Search with this level to look through the whole file.')
}
