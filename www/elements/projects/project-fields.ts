import type { Client } from '../../server/client.js'
import { html, type Template, keyed } from '../../dom/html.js'
import { t } from '../../words/t.js'
import type { Label, Project } from '../../../lib/model/project.js'
import { said, type Said, css, SvcElement } from '../element.js'
import { field, type Field } from '../base/form.js'

/** Quotes a word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./•-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** The usual output directory of build tools; the reader replaces it if necessary. */
const usualOutput = 'dist'

/**
 * Returns the commands that set up a repository and deploy its build. They must run at the top of the repository:
 * `svc.config.json` belongs there, not among the served files. `token` is the real token for copying, or a masked one
 * for display. It is passed through a pipe from a shell builtin, so that no process list shows it.
 */
export function pushCommand(project: Pick<Project, 'id' | 'policy'>, server: string, token: string): string {
  return [
    `printf %s ${quoted(token)} |`,
    `  svc init --server ${quoted(server)} --project ${quoted(project.id)} --out ${usualOutput} --token -`,
    pushWords(project)
  ].join('\n')
}

/** Returns the command of a push as the policy of signatures takes it. */
export function pushWords({ policy }: Pick<Project, 'policy'>): string {
  const { require = 'off', sbom = 'off' } = policy.signatures ?? {}
  const key = require === 'off' ? '' : ' --sign-key ~/.ssh/id_ed25519'
  return `svc push${key}${sbom === 'require' ? ' --sbom sbom.json' : ''}`
}

/** Returns the commands of a first deployment. Each asks for what it needs, so a paste must not run ahead of the answers. */
export function firstCommands(server: string): string {
  return `svc login --server ${quoted(server)} && svc init && svc push`
}

/** Stands for the user's own token if the panel does not know the token of the project. */
export const ownToken = 'YOUR-TOKEN'

/** Says which token a command contains. The server tells the token of a project to admins only. */
export function tokenHint({ token }: { token: string | null }): string {
  return token === null
    ? t('Replace YOUR-TOKEN with your own token.')
    : t('The copied text contains the deploy token of the project.')
}

/** Returns the equivalent command without the svc client. Its exit code is 0 only if the deployment succeeds. */
export function curlCommand(project: { id: string }, server: string, token: string): string {
  return [
    `printf %s ${quoted(`Authorization: Bearer ${token}`)} |`,
    `  curl --no-buffer --fail-with-body ${quoted(`${server}/api/deploy/upload`)} --header @- \\`,
    `  --form ${quoted(`projectId=${project.id}`)} --form ${quoted('file=@site.zip')} | tee site.ndjson`,
    `tail -n 1 site.ndjson | grep -q '"status":"success"'`
  ].join('\n')
}

/** Returns a command for display: lines break between words, and never after the hyphens of an option. */
export function commandView(command: string): Template {
  return html`<pre>${command.split(/( |\n)/).map(word => (/\s/.test(word) ? word : html`<span>${word}</span>`))}</pre>`
}

/** Returns a field that chooses at most one category. Its value is the id, or empty. */
export function categoryField({
  form,
  categories,
  chosen,
  onInput
}: {
  form: string
  categories: readonly Label[]
  chosen: string | null
  onInput?: (id: string) => void
}): Template {
  const id = `${form}-categoryId`
  return html`
    <div class="field">
      <label for="${id}">${t('Category')}</label>
      <select id="${id}" name="categoryId" @change="${(event: Event) => onInput?.((event.currentTarget as HTMLSelectElement).value)}">
        <option value="" .selected="${chosen === null}">${t('No category')}</option>
        ${categories.map(
          ({ id: value, name }) => html`
          <option value="${value}" .selected="${value === chosen}">${name}</option>`
        )}
      </select>
    </div>`
}

/** The values of `allowClientScripts`, with their words in English for t(). */
export const clientScripts: ReadonlyArray<{ value: string; allowed: boolean | null; words: string }> = [
  { value: '', allowed: null, words: 'Use the server setting' },
  { value: 'true', allowed: true, words: 'Run them unless the project has its own' },
  { value: 'false', allowed: false, words: 'Reject pushes with scripts' }
]

/** The parameters of `pathField`. */
export interface PathField extends Pick<Field, 'form' | 'value' | 'error' | 'hint' | 'placeholder' | 'onInput'> {
  client: Client
  /** The directories of the server are open below the field. */
  isChoosing: boolean
  /** The directory at which they open. */
  start: string
  onChoosing: (isChoosing: boolean) => void
  onChosen: (path: string) => void
}

/**
 * Returns the field for the target of a project: typed, or chosen on the server. The user must register `svc-places`.
 */
export function pathField({ client, isChoosing, start, onChoosing, onChosen, ...own }: PathField): Template {
  const chosen = ({ paths: [path] }: Said<'placeschosen'>): void => {
    if (path !== undefined) onChosen(path)
    onChoosing(false)
  }
  return html`
    ${field({
      ...own,
      name: 'deployPath',
      label: t('Directory on the server'),
      isRequired: true,
      isMono: true,
      beside: html`
        <button type="button" aria-expanded="${isChoosing ? 'true' : 'false'}"
          @click="${() => onChoosing(!isChoosing)}">${t('Browse…')}</button>`
    })}
    ${
      isChoosing
        ? html`
        <svc-places include="dirs" .client="${client}" .start="${start}"
          @placeschosen="${(event: Event) => chosen(event as Said<'placeschosen'>)}"
          @placescancel="${() => onChoosing(false)}"></svc-places>`
        : null
    }`
}

/**
 * Returns the proposed directory of a new project: below the server's default directory, named after the project with
 * the characters that a path allows. Empty if there is no default directory or no name. Pure.
 */
export function proposedPath(base: string, name: string): string {
  const segment = name
    .trim()
    .toLowerCase()
    .normalize('NFC')
    .replace(/[^\p{Letter}\p{Number}._-]+/gu, '-')
    .replace(/^[-.]+|(?<![-.])[-.]+$/g, '')
  if (base === '' || segment === '') return ''
  const separator = base.includes('\\') ? '\\' : '/'
  return base.endsWith(separator) ? `${base}${segment}` : `${base}${separator}${segment}`
}

const maxLength = 32

/**
 * Returns the proposed system user of a new project: its name with the characters that useradd(8) recommends. Empty if the
 * name contains none of them. Pure.
 */
export function proposedUser(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '-')
    .replace(/^[-0-9]+/, '')
    .slice(0, maxLength)
    .replace(/-$/, '')
  return plain === 'root' ? 'root-site' : plain
}

/** Returns the command that creates a project and its system user, on the server. */
export function createCommand({ name, path, user }: { name: string; path: string; user: string }): string {
  return `svc projects create ${quoted(name)} --path ${quoted(path)} --user ${quoted(user)}`
}

/**
 * Chooses any number of tags. Properties: `tags`; `chosen`, their ids. Attributes: `label`, the name of the choice;
 * `list`, shows one tag per line. Event: `tagchoice`. None of its controls is submitted with a form.
 */
export class SvcTagChoice extends SvcElement {
  static readonly observedAttributes = ['label', 'list']

  static override sheet = css`
    svc-tag-choice {
      display: block;

      fieldset { display: flex; flex-wrap: wrap; gap: 4px 14px; min-width: 0; max-height: 180px; margin: 0; padding: 0; border: 0; overflow-y: auto; }
      legend { padding: 0; margin-bottom: 2px; font-weight: 500; }
      label { display: flex; align-items: center; gap: 8px; min-width: 0; max-width: 100%; min-height: 30px; cursor: pointer; }
      &[list] fieldset { flex-direction: column; flex-wrap: nowrap; max-height: 280px; gap: 0; }
      &[list] label { padding: 0 6px; border-radius: 4px; }
      &[list] label:hover { background: var(--hover); }
      p { color: var(--muted); font-size: var(--size-13); }
      @media (pointer: coarse) { label { min-height: 44px; } }
    }
  `

  tags: readonly Label[] = []
  chosen: readonly string[] = []

  protected override view(): Template {
    if (this.tags.length === 0) {
      return html`<p>${t('No tags yet.')} <a href="labels">${t('Categories and tags')}</a></p>`
    }
    return html`
      <fieldset>
        <legend class="${this.hasAttribute('list') ? 'unseen' : null}">${this.getAttribute('label')}</legend>
        ${this.tags.map(tag =>
          keyed(
            tag.id,
            html`
          <label>
            <input type="checkbox" .checked="${this.chosen.includes(tag.id)}" @change="${() => this.#toggle(tag.id)}">
            <svc-label kind="tag" name="${tag.name}" color="${tag.color}"></svc-label>
          </label>`
          )
        )}
      </fieldset>`
  }

  #toggle(id: string): void {
    const { chosen } = this
    this.chosen = chosen.includes(id) ? chosen.filter(other => other !== id) : [...chosen, id]
    this.dispatchEvent(said('tagchoice', { tagIds: this.chosen }))
  }
}
