import type { Words } from '../t.js'

/** Texts of `pages/audit.ts`. */
export const words: Words = {
  'the audit log': '审计日志',
  'Filter by action': '选择操作',
  'All actions': '所有操作',
  'No entries yet': '还没有任何操作',
  'No matches': '没有符合的记录',
  'Each sign-in, change and deployment is listed here with its user and address.':
    '每次登录、每次更改、每次部署都会在此留下一行记录，包括操作者和来源地址。',
  'Filter by token': '选择令牌',
  'All tokens': '所有令牌',
  'You see the entries of your own token. An operator sees those of others.':
    '这里只显示你自己令牌的条目。操作员可以看到其他人的条目。',
  'You see the entries of your own token and of your projects: {projects}':
    '这里显示你自己令牌的条目，以及你的项目的条目：{projects}',
  'The log still begins with the {before} entries that this browser saw.':
    '日志仍以此浏览器见过的 {before} 条条目开头。',
  'Compare an export with a checkpoint from elsewhere: “svc audit verify --anchor”.':
    '请将导出文件与别处的检查点比较：“svc audit verify --anchor”。',
  'Accept this log': '接受此日志',
  'Last 24 hours': '最近 24 小时',
  'Last 7 days': '最近 7 天',
  'Last 90 days': '最近 90 天',
  'Filter by period': '选择时间段',
  'Any time': '任何时间',
  Detail: '详情',
  Session: '会话',
  Action: '操作',
  Number: '编号',
  Entry: '条目',
  Changes: '更改',
  Time: '时间',
  Address: '地址',
  Addresses: '地址',
  Role: '角色',
  Status: '状态',
  Step: '步骤',
  'Deploy token': '部署令牌',
  Variables: '变量',
  'Second factor': '双重验证'
}
