import { ifMatch, type Client } from '../../server/client.js'
import type { Labels, ProjectFields } from '../../server/requests.js'
import { css, notice, said, type Said, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { ElementTable } from '../../pages/page.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { errorWords, fieldLabels, t } from '../../words/t.js'
import { choice, field, type Field, Submission } from '../base/form.js'
import { isSame, type Loaded, saveBar, saveMerged, type SvcConflict } from '../base/saving.js'
import { categoryField, pathField } from './project-fields.js'
import {
  added,
  type CardName,
  cards,
  changed,
  draftOf,
  fieldsOf,
  givenOf,
  policyWords,
  rowsOf,
  textOf,
  type Values,
  valuesOf
} from './project-cards.js'
import {
  checkKinds,
  type Draft,
  type ItemField,
  type ListName,
  type Part,
  type Row,
  type Texts,
  windowFields
} from './safety-rows.js'

/** Maximum numbers of items, as on the server. */
const maxItems: Record<ListName, number> = { checks: 10, allow: 50, freeze: 50 }

/**
 * One card of a project's settings, which saves its own fields. Properties: `card`, `project`, `client`, `labels`;
 * `define`, registers elements that are loaded late. Events: `projectchange`, `unsaved`,
 * `notice`.
 */
export class SvcProjectCard extends SvcElement {
  static override sheet = css`
    svc-project-card {
      display: grid;
      gap: 12px;

      form { display: grid; gap: 20px; }
      hgroup { padding-top: 12px; }
      .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(220px, 100%), 1fr)); gap: 4px 20px; margin-bottom: -12px; }
      .item .pair { grid-template-columns: repeat(auto-fit, minmax(min(150px, 100%), 1fr)); }
      /* The controls stay in a row, whether a label has one line or two. */
      .pair > .field { grid-row: span 4; grid-template-rows: subgrid; gap: 4px; margin-bottom: 12px; }
      .pair > .field > label { align-self: end; }
      .item { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 12px; min-width: 0; margin: 0; padding: 16px; border: 1px solid var(--line); border-radius: var(--radius); align-items: start; }
      .item .field:has(select) { max-width: 240px; }
      .item .fields { display: grid; gap: 12px; }
      .item > button { min-width: 36px; padding: 4px; }
      .list { display: grid; gap: 12px; justify-items: start; }
      .list > fieldset { justify-self: stretch; }
    }
  `

  card: CardName = 'general'
  client!: Client
  define!: (elements: ElementTable) => void
  labels: Labels = { categories: [], tags: [] }
  /** The state that the texts are compared with. */
  #base!: Project
  #draft!: Draft
  #apps: readonly string[] = []
  #sources: readonly Project[] | null = null
  readonly #submission = new Submission(this)
  #isUnsaved = false
  #isChoosing = false
  /** Whether a field shows the error. */
  #isPlaced = false

  get project(): Project {
    return this.#base
  }

  /** While there are unsaved changes, the card keeps its texts; saving asks about values that are newer. */
  set project(project: Project) {
    if (!this.#isUnsaved) this.#draft = draftOf(project)
    if (!this.#isUnsaved || this.#isAsBefore(project)) this.#base = project
    this.update()
  }

  /** Whether the fields of this card have the same values in a newer state. */
  #isAsBefore(project: Project): boolean {
    const [now, before] = [valuesOf(project), valuesOf(this.#base)]
    return Object.keys(givenOf(this.card, this.#draft)).every(name => isSame(now[name], before[name]))
  }

  protected override connected(): void {
    if (this.card !== 'general') return
    // Only proposals: without them, the name is typed.
    this.client.call('GET /api/pm2/apps', { signal: this.signal }).then(
      ({ apps }) => {
        this.#apps = apps.map(({ name }) => name)
        this.update()
      },
      () => {}
    )
  }

  protected override view(): Template {
    const { words, parts } = cards[this.card]
    const { isBusy, problem } = this.#submission
    this.#isPlaced = false
    return html`
      <div class="section-head">
        <h2>${t(words)}</h2>
        ${this.card === 'scripts' ? html`<button type="button" @click="${() => void this.#fillIn()}">${t('Copy from last deployment')}</button>` : null}
      </div>
      <form class="card padded" aria-label="${t(words)}" @submit="${(event: Event) => void this.#save(event)}">
        ${(parts as readonly Part[]).map(part => this.#part(part))}
        ${saveBar({
          isBusy,
          isUnsaved: this.#isUnsaved,
          problem: this.#isPlaced ? null : problem,
          onDiscard: () => this.#discard()
        })}
      </form>
      <svc-conflict></svc-conflict>`
  }

  #part(part: Part): Template | null {
    if (Array.isArray(part)) {
      const shown = (part as readonly Row[]).map(row => this.#part(row)).filter(each => each !== null)
      return shown.length === 0 ? null : html`<div class="pair">${shown}</div>`
    }
    const single = part as Exclude<Part, readonly Row[]>
    if (single.when?.(this.#draft) === false) return null
    if ('path' in single) return this.#row(single)
    const { heading, hint } = single
    return html`<hgroup><h3>${t(heading)}</h3>${hint === undefined ? null : html`<p class="muted small">${t(hint)}</p>`}</hgroup>`
  }

  #row(row: Row): Template {
    const { path, words, part, choices } = row
    const value = this.#draft.texts[path] ?? ''
    const onInput = (text: string): void => this.#change(changed(this.#draft, path, text))
    const own = {
      ...idOf(path),
      label: t(words),
      value,
      error: this.#problemAt(path, words),
      hint: row.hint && t(row.hint),
      onInput
    }
    if (choices !== undefined) return choice({ ...own, choices })
    if (part === 'checks' || part === 'allow' || part === 'freeze') return this.#list(part, row)
    if (part === 'category')
      return categoryField({ form: 'project', categories: this.labels.categories, chosen: value || null, onInput })
    if (part === 'source') return this.#source(row, own.error)
    if (part === 'tags') {
      return html`
        <svc-tag-choice label="${t(words)}" .tags="${this.labels.tags}" .chosen="${value.split(' ').filter(Boolean)}"
          @tagchoice="${(event: Event) => onInput((event as Said<'tagchoice'>).tagIds.join(' '))}"></svc-tag-choice>`
    }
    if (part === 'path') {
      return html`${pathField({
        ...own,
        client: this.client,
        isChoosing: this.#isChoosing,
        start: this.#isChoosing ? value : '',
        onChoosing: isChoosing => void this.#choosing(isChoosing),
        onChosen: onInput
      })}`
    }
    return fieldOf(path === 'pm2AppName' ? { ...row, proposals: this.#apps } : row, own)
  }

  #source({ path, words }: Row, error: string | undefined): Template {
    if (this.#sources === null) void this.#loadSources()
    const { form, name } = idOf(path)
    const value = this.#draft.texts[path] ?? ''
    const others = (this.#sources ?? []).filter(({ id }) => id !== this.#base.id)
    return html`
      <div class="field">
        <label for="${form}-${name}">${t(words)}</label>
        <select id="${form}-${name}" aria-invalid="${error === undefined ? null : 'true'}" aria-describedby="${error === undefined ? null : `${form}-${name}-error`}"
          @change="${(event: Event) => this.#change(changed(this.#draft, path, (event.currentTarget as HTMLSelectElement).value))}">
          <option value="" .selected="${value === ''}">${t('Choose a project')}</option>
          ${others.map(({ id, name }) => html`<option value="${id}" .selected="${id === value}">${name}</option>`)}
        </select>
        ${error === undefined ? null : html`<p class="error" id="${form}-${name}-error">${icon('warning')}<span>${error}</span></p>`}
      </div>`
  }

  async #loadSources(): Promise<void> {
    this.#sources = []
    this.#sources = await this.client.call('GET /api/projects', { signal: this.signal }).catch(() => [])
    this.update()
  }

  #list(list: ListName, { path, words, add }: Row): Template {
    const items: ReadonlyArray<{ texts: Texts }> = this.#draft[list]
    const setItems = (next: ReadonlyArray<{ texts: Texts }>): void => this.#change({ ...this.#draft, [list]: next })
    const remove = (index: number): void => {
      this.#submission.refuse(null)
      setItems(items.filter((_, at) => at !== index))
    }
    const item = ({ texts }: { texts: Texts }, index: number): Template => {
      const setText = (name: string, text: string): void =>
        setItems(items.map((each, at) => (at === index ? { ...each, texts: { ...each.texts, [name]: text } } : each)))
      const label = `${t(words)} ${index + 1}`
      return html`
        <fieldset class="item" aria-label="${label}">
          <div class="fields">
            ${list === 'checks' ? this.#kind(`policy-check-${index}`, texts['kind'], kind => setText('kind', kind)) : null}
            <div class="pair">
              ${(list === 'checks' ? (checkKinds[texts['kind'] ?? '']?.fields ?? []) : windowFields[list]).map(each =>
                fieldOf(each, {
                  form: `policy-${list}-${index}`,
                  name: each.path,
                  label: t(each.words),
                  value: texts[each.path] ?? '',
                  error: this.#problemAt(`${path}[${index}].${each.path}`, each.words),
                  onInput: text => setText(each.path, text)
                })
              )}
            </div>
            ${texts['kind'] === 'pm2' ? html`<p class="muted small">${t('The PM2 application of the project must be online and must not restart.')}</p>` : null}
          </div>
          <button type="button" class="quiet" aria-label="${t('Remove {name}', { name: label })}" @click="${() => remove(index)}">${icon('delete')}</button>
        </fieldset>`
    }
    const problem = this.#problemAt(path, words)
    return html`
      <div class="list">
        ${items.map((each, index) => keyed(String(index), item(each, index)))}
        ${problem === undefined ? null : html`<p class="error-line" role="alert">${icon('warning')}<span>${problem}</span></p>`}
        <button type="button" disabled="${items.length >= maxItems[list]}" @click="${() => this.#change(added(this.#draft, list))}">${icon('plus')}${t(add as string)}</button>
      </div>`
  }

  #kind(id: string, chosen: string | undefined, onInput: (kind: string) => void): Template {
    return html`
      <div class="field">
        <label for="${id}">${t('Kind')}</label>
        <select id="${id}" @change="${(event: Event) => onInput((event.currentTarget as HTMLSelectElement).value)}">
          ${Object.entries(checkKinds).map(([kind, { words }]) => html`<option value="${kind}" .selected="${kind === chosen}">${t(words)}</option>`)}
        </select>
      </div>`
  }

  #problemAt(path: string, words: string): string | undefined {
    const problem = this.#submission.problemAt(path, words)
    if (problem !== undefined) this.#isPlaced = true
    return problem
  }

  #change(draft: Draft): void {
    this.#draft = draft
    this.#unsaved(true)
  }

  #discard(): void {
    this.#draft = draftOf(this.#base)
    this.#submission.refuse(null)
    this.#unsaved(false)
  }

  #unsaved(isUnsaved: boolean): void {
    if (isUnsaved !== this.#isUnsaved) {
      this.#isUnsaved = isUnsaved
      this.dispatchEvent(said('unsaved', { isUnsaved }))
    }
    this.update()
  }

  /** The chooser of directories is loaded when it is first opened. */
  async #choosing(isChoosing: boolean): Promise<void> {
    try {
      if (isChoosing) this.define({ 'svc-places': (await import('../base/svc-places.js')).SvcPlaces })
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
      return
    }
    this.#isChoosing = isChoosing
    this.update()
    if (!isChoosing) this.querySelector<HTMLElement>('#project-deployPath')?.focus()
  }

  /** Copies the scripts of the last successful deployment that ran any, wherever they came from. */
  async #fillIn(): Promise<void> {
    try {
      const { deployId, ...scripts } = await this.client.call('GET /api/projects/:id/recent-scripts', {
        id: this.#base.id
      })
      if (deployId === null) {
        this.dispatchEvent(notice(t('No successful deployment has run a script yet')))
        return
      }
      const { preDeployScript, postDeployScript } = scripts
      this.#change({ ...this.#draft, texts: { ...this.#draft.texts, preDeployScript, postDeployScript } })
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }

  async #save(event: Event): Promise<void> {
    event.preventDefault()
    await this.#submission.run(async () => {
      const project = await this.#saveMerged(givenOf(this.card, this.#draft))
      if (project === null) return
      this.#unsaved(false)
      this.project = project
      this.dispatchEvent(said('projectchange', { project }))
      this.dispatchEvent(notice(t('Saved')))
    })
  }

  #saveMerged(mine: Values): Promise<Project | null> {
    const { id } = this.#base
    const loaded = (project: Project): Loaded<Project> => ({
      values: valuesOf(project),
      tag: project.updatedAt,
      state: project
    })
    return saveMerged({
      base: loaded(this.#base),
      mine,
      send: async (changes, tag) =>
        (
          await this.client.call('PUT /api/projects/:id', {
            id,
            body: fieldsOf(changes) as ProjectFields,
            headers: ifMatch(tag)
          })
        ).project,
      keep: theirs => theirs,
      load: async () => loaded(await this.client.call('GET /api/projects/:id', { id })),
      choose: conflicts =>
        (this.querySelector('svc-conflict') as SvcConflict).ask(
          conflicts.map(({ name, mine, theirs }) => ({
            name,
            label: t(rowOf(this.card, name)?.words ?? policyWords[name] ?? fieldLabels[name] ?? name),
            mine: this.#shown(name, mine),
            theirs: this.#shown(name, theirs)
          }))
        )
    })
  }

  /** Returns the value of a field as the card shows it. */
  #shown(name: string, value: unknown): string {
    const { as, choices } = rowOf(this.card, name) ?? {}
    if (choices !== undefined)
      return t((choices.find(each => each.value === textOf(value)) ?? choices[0])?.words as string)
    const labels = new Map([...this.labels.categories, ...this.labels.tags].map(({ id, name }) => [id, name]))
    if (name === 'categoryId') return labels.get(value as string) ?? textOf(value)
    return name === 'tagIds' ? (value as string[]).map(id => labels.get(id) ?? id).join(', ') : textOf(value, as)
  }
}

function fieldOf({ placeholder, rows, proposals, isRequired, isPlain, as, type }: ItemField, own: Field): Template {
  const kind = as === 'number' ? as : type
  return field({
    ...own,
    placeholder,
    rows,
    proposals,
    isRequired,
    type: kind,
    isMono: isPlain !== true && kind === undefined
  })
}

const rowOf = (card: CardName, path: string): Row | undefined => rowsOf(card).find(row => row.path === path)

/** Returns the parts of the id of a field. */
function idOf(path: string): { form: string; name: string } {
  const [first, ...rest] = path.replace('#', 'policy.').split('.')
  return rest.length === 0 ? { form: 'project', name: path } : { form: first as string, name: rest.join('-') }
}
