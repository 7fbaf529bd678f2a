import type { Words } from '../t.js'

/** Texts of `pages/deployments.ts`. */
export const words: Words = {
  'the deployments': '部署列表',
  'All projects': '所有项目',
  'Filter by project': '选择项目',
  'All statuses': '所有状态',
  Branch: '分支',
  Commit: '提交',
  'Enter at least 4 digits of the commit ID (0–9, a–f)': '至少需要提交编号的 4 位（0–9、a–f）',
  'Filter by status': '选择状态',
  '{shown} of {all}': '{all}中的 {shown} 次',
  'Loading…': '正在加载…',
  'Load more': '加载更多',
  'No deployments yet': '尚无部署',
  'Each push, upload and rollback is listed here with its output.':
    '每次推送、每个拖放到项目的 zip 和每次回滚都会在此成为一行，并附带其输出。',
  'Go to projects': '前往项目',
  'No matches': '没有符合条件的部署',
  'No deployment matches the filter.': '没有部署符合上面的筛选条件。'
}
