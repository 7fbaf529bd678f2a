import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { logLevels } from '../state/log-level.js'
import type { LogLevel } from '../state/log-level.js'
import { t } from '../words/t.js'

/** What a choice of a level says. */
const levelWords: Readonly<Record<LogLevel, string>> = {
  error: 'Errors',
  warn: 'Warnings and worse',
  info: 'Info and worse',
  debug: 'Lines with a level'
}

/** A field that chooses the least bad level of lines, or all lines. */
export function levelChoice(level: LogLevel | null, choose?: (level: LogLevel | null) => void): Template {
  const changed = (event: Event): void => choose?.(levelOf((event.currentTarget as HTMLSelectElement).value))
  return html`
    <select class="level" name="level" aria-label="${t('Level')}" @change="${changed}">
      <option value="" .selected="${level === null}">${t('All levels')}</option>
      ${logLevels.map(each => html`
        <option value="${each}" .selected="${each === level}">${t(levelWords[each])}</option>`)}
    </select>`
}

/** The level that a field or an address names; null: all. */
export function levelOf(given: unknown): LogLevel | null {
  return logLevels.find(each => each === given) ?? null
}

/** What is said where no line is shown. */
export function noneWords(level: LogLevel | null): string {
  return level === null
    ? t('Nothing written yet.')
    : t('No line of this level in what is loaded. A search with this level looks at the whole file.')
}
